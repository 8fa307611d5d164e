"""Writes tables and figures again from the files of a sweep.

Examples:
    python -m launch.report --workdir=runs/quickstart
    python -m launch.report --workdir=runs/quickstart --open
"""

from absl import flags

from launch import _browser, _cli
from lsa_jax.sweep.points import recorded_points

flags.adopt_module_key_flags(_browser)
_cli.declare("workdir")


def main() -> None:
    """Reports on the finished runs of --workdir."""
    workdir = _cli.workdir()
    config, points = recorded_points(workdir)

    from lsa_jax.sweep.run import report_sweep

    report_sweep(config, points, workdir)
    _browser.open_page(workdir / "report.html")


if __name__ == "__main__":
    _cli.run(main)
