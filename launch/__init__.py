"""Command-line entry points: `python -m launch.list`, `show`, `sweep`, `run`, `report`, ..."""
