r"""Runs sweeps on a Dask cluster: one of this machine, or any that is reached by its scheduler.

Examples:
    python -m launch.cluster --local=4 --config=configs/quickstart.py --workdir=runs/quickstart
    python -m launch.cluster --scheduler=tcp://10.0.0.1:8786 --config='configs/lsa/*.py:small' \
        --config=mine.txt --workdir=/shared/many --data_dir=/shared/data

Every group of runs that train together is a task of Dask, the costliest first, and the folder ends
as after launch.sweep, bit for bit on the same kind of device. --config is as in launch.slurm: one
sweep, or several in folders of their own below --workdir with one report on all. Workers need
lsa_jax, and the folders under the same names. --local=N starts N of them here, each with a GPU of
its own where there are any.

A group that raises, or whose worker is lost, runs again from its last checkpoint: three times, and
with --local ten times for lost workers. The same command resumes after a kill; several of them on
one folder share its groups. Needs distributed: pip install 'lsa_jax[dask]'.
"""

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from launch import _cli, _sweeps
from lsa_jax.errors import InputError
from lsa_jax.reporting.progress import Progress
from lsa_jax.sweep import work

if TYPE_CHECKING:
    from distributed import Client

_cli.declare("config", "workdir", "data_dir")

_SCHEDULER = _cli.define_path(
    "scheduler", None, "Address of a Dask scheduler, tcp://HOST:PORT, or its scheduler file."
)
_LOCAL = flags.DEFINE_integer("local", None, "Workers of a cluster on this machine.", lower_bound=1)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print runs, groups and times, and run nothing.")

_RETRIES = 3
_PATIENCE = 10  # seconds that a scheduler has to answer
# Libraries keep their number of threads, as others round otherwise. A worker whose start takes long
# is waited for, or none would be left at last; and whoever was killed often may be innocent.
_LOCAL_SETTINGS = {
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.scheduler.allowed-failures": 10,
}
_PAUSE = 2.0  # seconds until groups that other commands hold are tried again


def _check() -> list[str]:
    """Returns this machine's GPUs, as CUDA_VISIBLE_DEVICES has them; raises for wrong flags."""
    if not _DRY_RUN.value and (_SCHEDULER.value is None) == (_LOCAL.value is None):
        raise InputError("--local and --scheduler: accepted: one, as --local=4, not both")
    _cli.require_library("distributed", "launch.cluster", "pip install 'lsa_jax[dask]'")
    found = [str(number) for number, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]
    gpus = (os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(found)).split(",") if found else []
    if gpus and (_LOCAL.value or 0) > len(gpus):
        raise InputError(f"--local is {_LOCAL.value}; accepted: up to {len(gpus)}, one a GPU")
    return gpus


def _wait_for(file: str | None) -> None:
    """Waits for a scheduler's file as for an address: Dask would wait for ever."""
    end = time.monotonic() + _PATIENCE
    while file is not None and not os.path.exists(file):
        if time.monotonic() > end:
            raise OSError(f"no such file after {_PATIENCE} s")
        time.sleep(0.1)


@contextlib.contextmanager
def _client(gpus: list[str]) -> Iterator["Client"]:
    """Yields a client of the cluster, which it starts where that is this machine.

    A worker has one thread for tasks: two groups would share its devices.
    """
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster

    address, host, workers = _SCHEDULER.value, {"host": "127.0.0.1"}, {}
    quiet = {"silence_logs": logging.WARNING}
    place = {"scheduler_file" if str(address).endswith(".json") else "address": address}
    for number in range(_LOCAL.value or 0):
        env = {"CUDA_VISIBLE_DEVICES": gpus[number]} if gpus else {}
        options = {"nthreads": 1, "memory_limit": 0, "env": env, **quiet, **host}
        workers[number] = {"cls": Nanny, "options": options}
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": "127.0.0.1:0", **host}}
    with contextlib.ExitStack() as stack:
        if workers:
            stack.enter_context(dask.config.set(_LOCAL_SETTINGS))
            cluster = SpecCluster(workers, scheduler, **quiet)
            place = {"address": stack.enter_context(cluster)}
        try:
            _wait_for(place.get("scheduler_file"))
            client = stack.enter_context(Client(**place, timeout=_PATIENCE))
        except (AssertionError, OSError, ValueError) as error:  # the first of a damaged file
            reason = str(error) or "its file is damaged"
            raise InputError(
                f"--scheduler is {address!r}, where no scheduler answers ({reason}); "
                "accepted: tcp://HOST:PORT of one that runs, or --local=4"
            ) from None
        yield client


def _run(client: "Client", groups: Sequence[_sweeps.Group], data_dir: Path | None) -> int:
    """Runs groups until each is done, here or by another command.

    Returns the number of failed runs, and of groups that raised too often.
    """
    from distributed import as_completed

    failures, done, waiting = 0, 0, list(groups)
    options = {"wait": False, "shown": False, "retries": _RETRIES, "pure": False}
    with Progress(sum(group.runs for group in groups)) as bar:
        while waiting:
            held, tasks = [], {}
            for group in waiting:
                call = work.run, group.sweep.workdir, [group.number], data_dir
                tasks[client.submit(*call, **options)] = group
            for task in as_completed(tasks):
                group, error = tasks[task], task.exception()
                failed = 1 if error else task.result()
                if failed is None:
                    held.append(group)
                    continue
                if error:
                    print(f"group {group.name} failed: {type(error).__name__}: {error}", flush=True)
                failures, done = failures + failed, done + group.runs
                bar.advance_to(done, group.name)
            waiting = held
            time.sleep(_PAUSE if held else 0)
    return failures


def main() -> int:
    """Runs the missing groups, reports, and returns 1 if a run failed."""
    gpus = _check()
    sweeps, data_dir = _sweeps.planned(), _cli.data_dir()
    data_dir = data_dir and data_dir.absolute()

    # Only now: jax takes seconds to import, and mistakes should not. Devices are the workers'.
    import jax

    jax.config.update("jax_platforms", "cpu")
    groups = _sweeps.missing(sweeps)
    tasks = _sweeps.tasks(groups, 1)
    if _DRY_RUN.value:
        print(_sweeps.describe(tasks, 1))
        return 0
    with _client(gpus) as client:
        new = [sweep for sweep in sweeps if not (sweep.workdir / "config.json").exists()]
        with _sweeps.recorded(new, groups, data_dir, ["workers of Dask"]):
            print(f"{_sweeps.describe(tasks, 1)}\ndashboard: {client.dashboard_link}", flush=True)
        failures = _run(client, [group for task in tasks for group in task], data_dir)
    work.report_all(_cli.workdir().absolute())
    return int(failures > 0)


if __name__ == "__main__":
    _cli.run(main, configured=True)
