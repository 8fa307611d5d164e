r"""Runs a whole figure or table: every point of a configuration's sweep, then the report.

Examples:
    python -m launch.sweep --config=configs/quickstart.py --workdir=runs/quickstart
    python -m launch.sweep --config=configs/lsa/fig6_mnist.py:small --workdir=runs/fig6 \
        --data_dir=data
    python -m launch.sweep --config=configs/quickstart.py --workdir=runs/wide \
        --config.width_factor=2 --config.sweep.seed="(0, 1, 2, 3, 4)"

The same command again does only what is missing.
"""

import sys

from launch import _cli


def main(*, sweep: bool = True) -> int:
    """Runs what is missing, reports, and returns 1 if a run failed."""
    config, points = _cli.configured_points(sweep=sweep)
    workdir, data_dir = _cli.workdir(), _cli.data_dir()

    # Only now: jax takes seconds to import, and mistakes should not.
    import jax

    from lsa_jax.experiments.sweep import run_sweep

    devices = jax.devices()
    print(f"{len(points)} runs on {len(devices)} {devices[0].platform} device(s), into {workdir}")
    results = run_sweep(config, points, workdir, data_dir=data_dir, command=sys.argv)
    return int((results["status"] == "failed").any())


if __name__ == "__main__":
    _cli.run(main)
