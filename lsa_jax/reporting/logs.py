"""Copies of runs' metrics for TensorBoard and Weights & Biases, and a profile of some steps.

Metrics are written from a run's `metrics.jsonl` and `result.json` once its group is done, and never
twice, also for a finished sweep. Results of trained runs include `seconds`, throughput
(`images_per_second`) and the fraction of the devices' peak (`peak_fraction`).
"""

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lsa_jax.errors import InputError
from lsa_jax.reporting import files
from lsa_jax.reporting.courses import numbers, steps

# Seconds after which a profile ends even if the next report has not come: files grow by the second.
_PROFILE_LIMIT = 10.0


class Watch(NamedTuple):
    """Callbacks of a running sweep; by default none."""

    # Called with a point's id once its result is on disk; at the start with those of older results.
    stored: Callable[[str], None] = lambda run_id: None
    # Called whenever a group of points reports its progress.
    reported: Callable[[], None] = lambda: None


UNWATCHED = Watch()


def _events(rows: list[dict[str, Any]], result: dict[str, Any]) -> list[Any]:
    """Returns TensorBoard's events of a run, the results at its last step."""
    from tensorboardX import summary  # optional
    from tensorboardX.proto.event_pb2 import Event

    places, now = steps(rows), time.time()
    results = {f"result/{name}": value for name, value in numbers(result).items()}
    at_steps = [*zip(places, map(numbers, rows), strict=True), (max(places, default=0), results)]
    return [Event(wall_time=now, file_version="brain.Event:2")] + [
        Event(wall_time=now, step=step, summary=summary.scalar(name, value))
        for step, numbers in at_steps
        for name, value in numbers.items()
    ]


def write_tensorboard(workdir: Path, run_id: str) -> None:
    """Writes one run's metrics as event files into `tensorboard/<run id>/`, unless they are there.

    Its results are scalars `result/NAME` at the last step.

    Raises:
        StorageError: they cannot be written.
    """
    from tensorboardX.record_writer import RecordWriter  # optional

    target = workdir / "tensorboard" / run_id
    if target.exists():
        return
    partial = target.with_name(f".{run_id}.partial")
    if partial.exists():
        shutil.rmtree(partial)  # of a process that was killed
    events = _events(files.read_all_metrics(workdir, run_id), files.read_result(workdir, run_id))
    file = partial / f"events.out.tfevents.{int(time.time())}.lsa_jax"
    with files.storing(file, 0):
        partial.mkdir(parents=True)
        # Not by SummaryWriter, whose thread dies of a full disk while this one waits for it.
        writer = RecordWriter(str(file))
        try:
            for event in events:
                writer.write(event.SerializeToString())
        finally:
            writer.close()
    os.replace(partial, target)


def write_wandb(workdir: Path, run_id: str, project: str) -> None:
    """Logs one run to Weights & Biases, unless `wandb/<run id>.json` exists.

    The run's group is the folder's name; where nothing may be sent, `WANDB_MODE=offline` keeps the
    files below `wandb/`.
    """
    record = workdir / "wandb" / f"{run_id}.json"
    if record.exists():
        return
    import wandb  # optional

    record.parent.mkdir(exist_ok=True)
    rows, result = files.read_all_metrics(workdir, run_id), files.read_result(workdir, run_id)
    # The same id for the same results: a run that was half logged is resumed.
    known = json.dumps([str(workdir.absolute()), run_id, result])
    run = wandb.init(
        project=project,
        id=hashlib.sha256(known.encode()).hexdigest()[:16],
        resume="allow",
        name=run_id,
        group=workdir.absolute().name,
        dir=str(workdir),
        config=files.read_record(workdir)["config"] | {"run": run_id},
    )
    for step, row in zip(steps(rows), rows, strict=True):
        run.log(numbers(row), step=step)
    run.summary.update(result)
    run.finish()
    files.write_json(record, {"project": project, "id": run.id})


def make_log(
    workdir: Path, *, tensorboard: bool, wandb_project: str | None
) -> Callable[[str], None]:
    """Returns a function that copies the run of an id to the requested logs.

    Raises:
        InputError: Weights & Biases refuses the login, for example without an account's key.
    """
    if wandb_project:
        import wandb  # optional

        try:
            wandb.login()
        except wandb.Error as error:
            raise InputError(
                f"--wandb={wandb_project}: {str(error).rstrip('.')}; accepted: after `wandb "
                "login`, or with WANDB_MODE=offline in the environment"
            ) from None

    def log(run_id: str) -> None:
        if tensorboard:
            write_tensorboard(workdir, run_id)
        if wandb_project:
            write_wandb(workdir, run_id, wandb_project)

    return log


class Profiler:
    """Traces the program between the first two progress reports of a sweep.

    By the first one programs are compiled, so that the trace shows steps; it ends after
    `_PROFILE_LIMIT` seconds at the latest. It lies in `<directory>/plugins/profile/`, which
    TensorBoard's profile plugin (xprof) and Perfetto read.
    """

    def __init__(self, directory: Path, limit: float = _PROFILE_LIMIT) -> None:
        """Writes nothing yet."""
        self._directory = directory
        self._lock = threading.Lock()
        self._timer = threading.Timer(limit, self._stop)
        self._timer.daemon = True
        self._state = "waiting"

    def report(self) -> None:
        """Takes notice of a report: starts the trace, or ends it."""
        if self._state == "waiting":
            import jax

            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # each call of Python would be in it
            jax.profiler.start_trace(self._directory, profiler_options=options)
            self._state = "running"
            self._timer.start()
        else:
            self._stop()

    def _stop(self) -> None:
        with self._lock:  # the timer and a report may come at once
            if self._state == "running":
                import jax

                jax.profiler.stop_trace()
                self._state = "done"

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(self, *exception: object) -> None:
        self._timer.cancel()
        self._stop()
        if self._state == "done":
            print(f"wrote {self._directory}")
        else:
            print("--profile found nothing to trace: no group of runs reported its progress")
