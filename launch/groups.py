"""Runs some groups of a recorded sweep, while other processes run other groups.

Examples:
    python -m launch.groups --workdir=runs/fig6 --groups=0
    python -m launch.groups --workdir=runs/fig6 --groups=1,2 --data_dir=data

A group is a set of points that train together, with checkpoints of its own. Groups are numbered
from 0 in the order of launch.sweep. The tasks of launch.slurm run this command; other schedulers
can run it as well, and launch.report afterwards. The same command again runs only the missing
points.
"""

from absl import flags

from launch import _cli
from lsa_jax.errors import InputError
from lsa_jax.sweep.points import recorded_points

_cli.declare("workdir", "data_dir")

_GROUPS = flags.DEFINE_list("groups", None, "Which groups to run, as 0,3.")


def _numbers() -> list[int]:
    """Returns --groups, each once.

    Raises:
        InputError: it is missing, or no list of numbers.
    """
    if not _GROUPS.value or not all(part.strip().isdecimal() for part in _GROUPS.value):
        given = "missing" if _GROUPS.value is None else repr(",".join(_GROUPS.value))
        raise InputError(f"--groups is {given}; accepted: numbers from 0, as --groups=0,3")
    return list(dict.fromkeys(int(part) for part in _GROUPS.value))


def main() -> int:
    """Runs the missing points of the groups and returns 1 if a run failed."""
    workdir, data_dir, numbers = _cli.workdir(), _cli.data_dir(), _numbers()
    config, points = recorded_points(workdir)

    # Only now: jax takes seconds to import, and mistakes should not.
    from lsa_jax.sweep.run import run_groups

    results = run_groups(config, points, workdir, numbers, data_dir=data_dir)
    return int((results["status"] == "failed").any())


if __name__ == "__main__":
    _cli.run(main)
