r"""Submits a figure or table to SLURM: an array of the sweep's groups, then a job for the report.

Examples:
    python -m launch.slurm --config=configs/lsa/fig6_mnist.py --workdir=/scratch/me/fig6 \
        --data_dir=/scratch/me/data --partition=gpu --gpus=1 --cpus=8 --mem_gb=32 --time=240
    python -m launch.slurm --config=configs/quickstart.py --workdir=runs/quickstart --dry_run

The folder ends with the same files as after launch.sweep: a task of the array runs some of the
sweep's groups (launch.groups), and a job that waits for the array writes the report
(launch.report). The same command again submits only missing groups. Logs and sbatch scripts go to
WORKDIR/slurm. Jobs start in the folder where this command was given, with the same Python and the
same code; --workdir and --data_dir must be seen by all nodes. Other options of sbatch come from its
environment variables, such as SBATCH_ACCOUNT and SBATCH_QOS. Needs submitit:
pip install 'lsa_jax[slurm]'.

A task that is preempted, or whose node fails, is queued again by SLURM; one whose time is over
queues itself again (scontrol requeue), at most --requeues times. Both go on from the last
checkpoint and end with the same numbers. Where compute nodes have no scontrol, a task whose time is
over ends as failed with one line in its log, and the same command resumes it.
"""

import contextlib
import functools
import importlib.util
import io
import math
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from absl import flags

from launch import _cli
from lsa_jax.errors import InputError
from lsa_jax.reporting import files

if TYPE_CHECKING:
    import submitit

_cli.declare("config", "workdir", "data_dir")

_PARTITION = flags.DEFINE_string("partition", None, "Partition; default: the cluster's own.")
_GPUS = flags.DEFINE_integer("gpus", 0, "GPUs a task.", lower_bound=0)
_CPUS = flags.DEFINE_integer("cpus", 4, "CPU cores a task.", lower_bound=1)
_MEM_GB = flags.DEFINE_float("mem_gb", None, "Memory a task, in GB; default: the cluster's own.")
_TIME = flags.DEFINE_integer("time", 60, "Minutes until a task is queued again.", lower_bound=5)
_REQUEUES = flags.DEFINE_integer(
    "requeues", 20, "How often a task whose time is over is queued again.", lower_bound=0
)
_GROUPS_PER_TASK = flags.DEFINE_integer(
    "groups_per_task", 1, "Groups that a task runs, one after the other.", lower_bound=1
)
_ARRAY_PARALLELISM = flags.DEFINE_integer(
    "array_parallelism", 64, "Tasks that run at the same time.", lower_bound=1
)
_REPORT_PARTITION = flags.DEFINE_string(
    "report_partition", None, "Partition of the job that writes the report; default: --partition."
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the sbatch scripts and submit nothing.")
_PREFLIGHT = flags.DEFINE_string(
    "preflight",
    None,
    "Machine of a task, as h100:1: submit only if launch.preflight finds that all fits.",
)

_ROOT = Path(__file__).resolve().parents[1]
_WARNING_SECONDS = 60  # before the time is over; SLURM looks only once in so many seconds
_PROGRAMS = ("sbatch", "srun", "squeue")


class _Resources(NamedTuple):
    """The resources of a job; None is the cluster's default."""

    partition: str | None
    gpus: int
    cpus: int
    mem_gb: float | None
    minutes: int


def _of_task() -> _Resources:
    return _Resources(_PARTITION.value, _GPUS.value, _CPUS.value, _MEM_GB.value, _TIME.value)


def _of_report() -> _Resources:
    """Returns the report's resources: it trains nothing, so no GPU, and never more than a task."""
    task = _of_task()
    return _Resources(
        partition=_REPORT_PARTITION.value or task.partition,
        gpus=0,
        cpus=min(task.cpus, 2),
        mem_gb=None if task.mem_gb is None else min(task.mem_gb, 8),
        minutes=min(task.minutes, 30),
    )


def _check() -> None:
    """Raises where flags are wrong or programs are missing; imports nothing."""
    if _MEM_GB.value is not None and not 0 < _MEM_GB.value < float("inf"):
        raise InputError(f"--mem_gb is {_MEM_GB.value:g}; accepted: a number above 0")
    if importlib.util.find_spec("submitit") is None:
        raise InputError("launch.slurm needs submitit; pip install 'lsa_jax[slurm]' installs it")
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent and not _DRY_RUN.value:
        raise InputError(
            f"{absent[0]} is not on the PATH; launch.slurm runs where jobs are submitted, and "
            "elsewhere with --dry_run only"
        )


def _preflight(data_dir: Path | None) -> None:
    """Compiles the configuration for the machine of a task.

    Raises:
        InputError: it does not fit, or that is not known.
    """
    data = [f"--data_dir={data_dir}"] if data_dir else []
    topology = f"--topology={_PREFLIGHT.value}"
    command = [sys.executable, "-m", "launch.preflight", *_cli.configured(), topology, *data]
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    if subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": path}).returncode:
        raise InputError(
            f"--preflight is {_PREFLIGHT.value!r}, and the programs were not shown to fit it; "
            "nothing is submitted"
        )


def _executor(
    workdir: Path, resources: _Resources, dependency: str | None = None
) -> "submitit.SlurmExecutor":
    """Returns an executor that submits jobs with these resources, after others if given."""
    import submitit

    class Executor(submitit.SlurmExecutor):
        """An executor without a check for a cluster: `_check` has one, and a dry run needs none."""

        affinity = classmethod(lambda cls: 2)

    executor = Executor(workdir / "slurm", max_num_timeout=_REQUEUES.value)
    optional = {
        "partition": resources.partition,
        "gpus_per_node": resources.gpus or None,
        "mem": None if resources.mem_gb is None else f"{math.ceil(resources.mem_gb * 1024)}MB",
        "dependency": dependency,
    }
    executor.update_parameters(
        job_name=f"lsa_jax-{workdir.name}",
        time=resources.minutes,
        nodes=1,
        ntasks_per_node=1,
        cpus_per_task=resources.cpus,
        array_parallelism=_ARRAY_PARALLELISM.value,
        signal_delay_s=_WARNING_SECONDS,
        setup=[f"export PYTHONPATH={shlex.quote(str(_ROOT))}${{PYTHONPATH:+:$PYTHONPATH}}"],
        # Since SLURM 22.05 srun does not take this over from sbatch.
        srun_args=[f"--cpus-per-task={resources.cpus}"],
        wckey=None,  # not submitit's own, which a cluster may refuse
        additional_parameters={"requeue": True, "chdir": str(Path.cwd())},
        **{name: value for name, value in optional.items() if value is not None},
    )
    return executor


def _commands(
    workdir: Path, data_dir: Path | None, numbers: list[int]
) -> tuple[list[list[str]], list[str]]:
    """Returns the commands of the array's tasks, and of the job after them."""
    python = [sys.executable, "-m"]
    folders = [f"--workdir={workdir}"]
    data = [f"--data_dir={data_dir.absolute()}"] if data_dir else []
    tasks = []
    for start in range(0, len(numbers), _GROUPS_PER_TASK.value):
        chosen = numbers[start : start + _GROUPS_PER_TASK.value]
        groups = f"--groups={','.join(map(str, chosen))}"
        tasks.append([*python, "launch.groups", *folders, groups, *data])
    return tasks, [*python, "launch.report", *folders]


def _print_script(executor: "submitit.SlurmExecutor", commands: list[list[str]]) -> None:
    """Prints the sbatch script of one job, or of an array, with its tasks' commands."""
    if len(commands) > 1:
        executor.parameters["map_count"] = len(commands)
    print(executor._make_submission_file_text(executor._submitit_command_str, "dry_run"))
    for number, command in enumerate(commands):
        print(f"# task {number}: {shlex.join(command)}")
    print()


def _submit(executor: "submitit.SlurmExecutor", commands: list[list[str]]) -> str:
    """Submits commands, several of them as an array, and returns the number of the job.

    Raises:
        InputError: sbatch refuses.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    from launch._task import SlurmTask

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit also prints its errors
            jobs = executor.map_array(SlurmTask(), commands)
    except (FailedJobError, FailedSubmissionError) as error:
        raise InputError(f"no job was made of {shlex.join(commands[0])}: {error}") from None
    return jobs[0].job_id.partition("_")[0]


def _array_file(workdir: Path) -> Path:
    return workdir / "slurm" / "array.json"


def _refuse_twice(workdir: Path) -> None:
    """Raises while tasks that were submitted before wait or run, as they would be run again."""
    file = _array_file(workdir)
    if not file.exists():
        return
    array = files.read_object(file, "remove it once no job of this sweep is queued").get("job")
    # Tasks that are just ending run nothing any more. For an old job squeue prints an error.
    states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED"
    command = ["squeue", "--noheader", f"--jobs={array}", states]
    queued = subprocess.run(command, capture_output=True, text=True, check=False)
    if queued.stdout.strip():
        raise InputError(
            f"--workdir {workdir}: job {array} is still queued, which runs this sweep; accepted: "
            f"the same command when it has ended, or after `scancel {array}`"
        )


def main() -> None:
    """Submits the array and the report, or prints their scripts."""
    _check()
    config, points = _cli.configured_points(sweep=True)
    workdir, data_dir = _cli.workdir().absolute(), _cli.data_dir()

    # Only now: jax takes seconds to import, and mistakes should not.
    from lsa_jax.sweep.experiment import load_experiment
    from lsa_jax.sweep.run import missing_groups, recorded_sweep

    numbers = missing_groups(config, points, workdir)
    tasks, report = _commands(workdir, data_dir, numbers)
    if tasks and _PREFLIGHT.value:
        _preflight(data_dir)
    if _DRY_RUN.value:
        if tasks:
            _print_script(_executor(workdir, _of_task()), tasks)
        waiting = "afterany:ARRAY" if tasks else None
        _print_script(_executor(workdir, _of_report(), waiting), [report])
        return

    experiment = load_experiment(config.experiment)
    load = functools.cache(lambda: experiment.load(points, data_dir))
    if tasks:
        load()  # raises where data are missing, before the jobs wait in a queue
    with recorded_sweep(
        config,
        points,
        workdir,
        load=load,
        command=_cli.command(),
        devices=[f"SLURM: {_CPUS.value} CPU cores and {_GPUS.value} GPUs a task"],
    ):
        dependency = None
        _refuse_twice(workdir)
        if tasks:
            array = _submit(_executor(workdir, _of_task()), tasks)
            files.write_json(_array_file(workdir), {"job": array})
            print(f"job {array}: {len(numbers)} group(s) in {len(tasks)} task(s)")
            dependency = f"afterany:{array}"
        job = _submit(_executor(workdir, _of_report(), dependency), [report])
        print(f"job {job}: the report")
    print(f"logs: {workdir / 'slurm'}; results: {workdir}")


if __name__ == "__main__":
    _cli.run(main, configured=True)
