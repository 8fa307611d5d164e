"""Command-line entry points: `python -m launch.list`, `show`, `sweep`, `run`, `report`, ..."""

from launch._allocator import take_large_pages

take_large_pages()
