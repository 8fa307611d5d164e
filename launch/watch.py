r"""Shows how far a sweep is: runs that are done, the time left, failures.

Examples:
    python -m launch.watch --workdir=runs/fig6
    python -m launch.watch --workdir=runs/fig6 --once

The folder is only read, so this works during a sweep in another terminal, the tasks of a SLURM
array, or a TPU's processes, wherever the folder can be read. Without --once it continues until all
runs are done. launch.report writes the curves and results of the runs that are done, at any time.
"""

import sys
import time

from absl import flags

from launch import _cli
from lsa_jax.reporting import progress
from lsa_jax.sweep.points import recorded_points

_cli.declare("workdir")

_EVERY = flags.DEFINE_float("every", 5.0, "Seconds between two looks.", lower_bound=1.0)
_ONCE = flags.DEFINE_bool("once", False, "Look once and end.")

_CLEAR = "\033[H\033[J"


def main() -> None:
    """Looks into --workdir until all is done."""
    _cli.end_with_reader()
    workdir = _cli.workdir()
    config, points = recorded_points(workdir)
    clear = _CLEAR if sys.stdout.isatty() and not _ONCE.value else ""
    while True:
        state = progress.read_state(workdir, [point.id for point in points], time.time())
        print(f"{clear}{config.get('title') or workdir.name}\n{state}", flush=True)
        if state.done or _ONCE.value:
            return
        if not clear:
            print()
        time.sleep(_EVERY.value)


if __name__ == "__main__":
    _cli.run(main)
