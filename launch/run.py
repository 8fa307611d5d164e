r"""Runs the one point that a configuration describes, then the report.

Examples:
    python -m launch.run --config=configs/quickstart.py --workdir=runs/one
    python -m launch.run --config=configs/quickstart.py --workdir=runs/noisy --config.noise=2.0
    python -m launch.run --config=configs/quickstart.py --workdir=runs/kernel \
        --config.learner=ntk_infinite

The same command again runs only the missing point.
"""

import functools

from absl import flags

from launch import _cli, sweep

flags.adopt_module_key_flags(sweep)

main = functools.partial(sweep.main, sweep=False)

if __name__ == "__main__":
    _cli.run(main, configured=True)
