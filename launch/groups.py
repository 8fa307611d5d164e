"""Runs groups of recorded sweeps, while other processes run other groups.

Examples:
    python -m launch.groups --workdir=runs/fig6 --groups=0
    python -m launch.groups --workdir=runs/fig6 --groups=1,2 --data_dir=data
    python -m launch.groups --workdir=runs/many --groups=quickstart-small:0,lsa-lemmas:3
    python -m launch.groups --workdir=runs/fig6

A group is a set of points that train together, with checkpoints of its own. Groups are numbered
from 0 in the order of launch.sweep; those of several sweeps have the name of their folder in front.
Without --groups the command takes one group after the other that no other process holds, until none
is left: start as many as you like. Tasks of launch.slurm run this command; other schedulers can run
it as well, and launch.report afterwards. The same command again runs only the missing points.
"""

from pathlib import Path

from absl import flags

from launch import _cli
from lsa_jax.errors import InputError
from lsa_jax.sweep import work

_cli.declare("workdir", "data_dir")

_GROUPS = flags.DEFINE_list("groups", None, "Which groups to run, as 0,3; default: any.")


def _numbers(workdir: Path, given: list[str]) -> dict[Path, list[int]]:
    """Returns the numbers of --groups by their sweeps' folders, each once; raises for others."""
    found: dict[Path, list[int]] = {}
    for group in given or [""]:
        name, _, number = group.strip().rpartition(":")
        if not number.isdecimal():
            raise InputError(
                f"--groups is {','.join(given)!r}; accepted: numbers from 0, as --groups=0,3, or "
                "with the sweep's folder, as --groups=quickstart-small:0"
            )
        numbers = found.setdefault(workdir / name, [])
        numbers += [] if int(number) in numbers else [int(number)]
    return found


def main() -> int:
    """Runs the missing points of the groups and returns 1 if a run failed."""
    workdir, data_dir = _cli.workdir(), _cli.data_dir()
    if _GROUPS.value is None:
        return int(work.run_free(workdir, data_dir) > 0)
    chosen = _numbers(workdir, _GROUPS.value).items()
    failed = [work.run(folder, numbers, data_dir) for folder, numbers in chosen]
    return int(any(failed))


if __name__ == "__main__":
    _cli.run(main)
