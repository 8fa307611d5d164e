"""Command-line entry points: `python -m launch.run`, `sweep`, `report`, `data`."""
