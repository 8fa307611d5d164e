"""Writes tables and figures again from the files of a sweep, or of all sweeps below a folder.

Example:
    python -m launch.report --workdir=runs/quickstart
"""

from launch import _cli
from lsa_jax.sweep import work
from lsa_jax.sweep.points import recorded_points

_cli.declare("workdir")


def main() -> None:
    """Reports on the finished runs of --workdir."""
    workdir = _cli.workdir()
    for folder in work.folders(workdir):
        recorded_points(folder)  # raises, before jax takes seconds to import
    work.report_all(workdir)


if __name__ == "__main__":
    _cli.run(main)
