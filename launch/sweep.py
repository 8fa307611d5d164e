r"""Runs a whole figure or table: every point of a configuration's sweep, then the report.

Examples:
    python -m launch.sweep --config=configs/quickstart.py --workdir=runs/quickstart
    python -m launch.sweep --config=configs/lsa/fig6_mnist.py:small --workdir=runs/fig6 \
        --data_dir=data
    python -m launch.sweep --config=configs/quickstart.py --workdir=runs/wide \
        --config.width_factor=2 --config.sweep.seed="(0, 1, 2, 3, 4)"

    python -m launch.sweep --config=configs/quickstart.py --workdir=runs/quickstart \
        --distributed --coordinator_address=10.0.0.1:8476 --num_processes=2 --process_id=0

    python -m launch.sweep --config=configs/quickstart.py --workdir=runs/quickstart \
        --tensorboard --wandb=quickstart --profile

    python -m launch.sweep --config=configs/quickstart.py --workdir=runs/quickstart --record_only

The report is also a page, `report.html`. --record_only writes the record for the tasks of a
scheduler (launch.groups), and runs nothing.

The same command again runs only the missing points. With --distributed several processes share the
work, on hosts of their own: each is started with the same command. Only process 0 needs to see the
folder for results.

`runs/<id>/metrics.jsonl` and `results.csv` are always written. --tensorboard and --wandb copy them,
with throughput and the fraction of the devices' peak, as soon as the runs that train together are
done; both can also be given to the command of a sweep that is finished.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from launch import _cli, _distributed, _sweeps
from lsa_jax.errors import InputError

if TYPE_CHECKING:
    from lsa_jax.reporting.logs import Watch

flags.adopt_module_key_flags(_distributed)
_cli.declare("config", "workdir", "data_dir")

_TENSORBOARD = flags.DEFINE_bool(
    "tensorboard",
    False,
    "Write the metrics for TensorBoard into the folder tensorboard of workdir.",
)
_WANDB = flags.DEFINE_string(
    "wandb", None, "Log the metrics to this project of Weights & Biases (WANDB_MODE=offline works)."
)
_PROFILE = flags.DEFINE_bool(
    "profile", False, "Write a JAX profile of some steps into the folder profile of workdir."
)
_RECORD_ONLY = flags.DEFINE_bool(
    "record_only",
    False,
    "Write the sweep's config.json into workdir, print the missing groups, and run nothing: "
    "launch.groups runs them.",
)


def _record(data_dir: Path | None, *, sweep: bool) -> None:
    """Records sweeps in their folders, once their data are found, and prints missing groups."""
    sweeps = _sweeps.planned(sweep=sweep)
    groups = _sweeps.missing(sweeps)
    with _sweeps.recorded(sweeps, groups, data_dir, ["tasks of launch.groups"]):
        for one in sweeps:
            numbers = _ranges([group.number for group in groups if group.sweep.name == one.name])
            print(f"{one.workdir}: {len(one.points)} runs; groups that are missing: {numbers}")


def _ranges(numbers: list[int]) -> str:
    """Returns sorted numbers as text, those that follow each other as first-last."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    pairs = zip(starts, ends, strict=True)
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs) or "none"


def _refuse_ignored() -> None:
    """Raises where --record_only is given with flags of a run."""
    for name in ("tensorboard", "wandb", "profile", "distributed"):
        if flags.FLAGS[name].value:
            raise InputError(f"--record_only runs nothing; accepted: without --{name}")


def _check_logs() -> None:
    """Raises InputError where a library that a flag needs is missing."""
    if _TENSORBOARD.value:
        _cli.require_library("tensorboardX", "--tensorboard", "pip install 'lsa_jax[logs]'")
    if _WANDB.value:
        _cli.require_library("wandb", f"--wandb={_WANDB.value}", "pip install wandb")
    if _WANDB.value == "":
        raise InputError("--wandb is empty; accepted: the name of a project")


@contextlib.contextmanager
def _watching(workdir: Path) -> Iterator["Watch"]:
    """Yields the callbacks that write the requested logs and profile."""
    from lsa_jax.reporting import logs

    log = logs.make_log(workdir, tensorboard=_TENSORBOARD.value, wandb_project=_WANDB.value)
    if not _PROFILE.value:
        yield logs.Watch(stored=log)
        return
    with logs.Profiler(workdir / "profile") as profiler:
        yield logs.Watch(log, profiler.report)


def main(*, sweep: bool = True) -> int:
    """Runs the missing points, reports, and returns 1 if a run failed."""
    if _RECORD_ONLY.value:
        _distributed.check()
        _refuse_ignored()
        _record(_cli.data_dir(), sweep=sweep)
        return 0
    config, points = _cli.configured_points(sweep=sweep)
    workdir, data_dir = _cli.workdir(), _cli.data_dir()
    _check_logs()
    _distributed.check()

    with _distributed.joined() as is_first:
        # Only now: jax takes seconds to import, and mistakes should not.
        import jax

        from lsa_jax.reporting.logs import UNWATCHED
        from lsa_jax.sweep.run import run_sweep

        devices = jax.devices()
        if is_first:
            platform = devices[0].platform
            print(f"{len(points)} runs on {len(devices)} {platform} device(s), into {workdir}")
        with _watching(workdir) if is_first else contextlib.nullcontext(UNWATCHED) as watch:
            results = run_sweep(
                config, points, workdir, data_dir=data_dir, command=_cli.command(), watch=watch
            )
    return int((results["status"] == "failed").any())


if __name__ == "__main__":
    _cli.run(main, configured=True)
