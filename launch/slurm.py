r"""Submits sweeps to SLURM: arrays of their groups, then a job for the report.

Examples:
    python -m launch.slurm --config=configs/lsa/fig6_mnist.py --workdir=/scratch/me/fig6 \
        --data_dir=/scratch/me/data --partition=gpu --gpus=1 --cpus=8 --mem_gb=32 --time=240
    python -m launch.slurm --config=configs/quickstart.py --workdir=runs/quickstart --dry_run
    python -m launch.slurm --config='configs/lsa/*.py:small' --config=mine.txt --workdir=runs/many \
        --groups_per_task=4

The folder ends with the same files as after launch.sweep: a task of an array runs some of the
sweep's groups (launch.groups), and a job that waits for the arrays writes the report
(launch.report). Several --config, a pattern, or a file of lines (FILE.txt: a configuration a line,
with its own --config.FIELD=VALUE) are sweeps in folders of their own below --workdir, with one
report on all. The same command again submits only missing groups. Arrays have at most the
cluster's MaxArraySize tasks. --dry_run prints runs, groups, the expected time of a task and GPU
hours. Logs and sbatch scripts go to WORKDIR/slurm. Jobs start in the folder where this command was
given, with the same Python and the same code; --workdir and --data_dir must be seen by all nodes.
Other options of sbatch come from its environment variables, such as SBATCH_ACCOUNT and SBATCH_QOS.
Needs submitit: pip install 'lsa_jax[slurm]'.

A task that is preempted, or whose node fails, is queued again by SLURM; one whose time is over
queues itself again (scontrol requeue), at most --requeues times. Both go on from the last
checkpoint and end with the same numbers. Where compute nodes have no scontrol, a task whose time is
over ends as failed with one line in its log, and the same command resumes it.
"""

import contextlib
import io
import math
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from launch import _cli, _sweeps
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
    "groups_per_task", 1, "A task has about the cost of this many average groups.", lower_bound=1
)
_ARRAY_PARALLELISM = flags.DEFINE_integer(
    "array_parallelism", 64, "Tasks that run at the same time.", lower_bound=1
)
_REPORT_PARTITION = flags.DEFINE_string(
    "report_partition", None, "Partition of the job that writes the report; default: --partition."
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the sbatch scripts and submit nothing.")
_CONTAINER = flags.DEFINE_string(
    "container", None, "Image in which tasks run, for SLURM with pyxis: a name or a .sqsh file."
)

_ROOT = Path(__file__).resolve().parents[1]
_WARNING_SECONDS = 60  # before the time is over; SLURM looks only once in so many seconds
_PROGRAMS = ("sbatch", "srun", "squeue")
_ARRAY_FILE = Path("slurm", "array.json")  # below the folder for results


def _check() -> None:
    """Raises where flags are wrong or programs are missing; imports nothing."""
    if _MEM_GB.value is not None and not 0 < _MEM_GB.value < float("inf"):
        raise InputError(f"--mem_gb is {_MEM_GB.value:g}; accepted: a number above 0")
    workdir = str(_cli.workdir().absolute())
    if re.search(r"[%\\\n]", workdir):  # sbatch replaces %j and so on in it, but not after \
        raise InputError(f"--workdir is {workdir!r}; accepted: a path without %, \\ and new lines")
    _cli.require_library("submitit", "launch.slurm", "pip install 'lsa_jax[slurm]'")
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent and not _DRY_RUN.value:
        raise InputError(
            f"{absent[0]} is not on the PATH; launch.slurm runs where jobs are submitted, and "
            "elsewhere with --dry_run only"
        )


def _resources(arrays: int) -> dict[str, Any]:
    """Returns the resources of a task of so many arrays, or with 0 of the report.

    The report trains nothing: it has no GPU, and never more than a task.
    """
    memory, cpus, minutes, partition = _MEM_GB.value, _CPUS.value, _TIME.value, _PARTITION.value
    if not arrays:
        memory, cpus, minutes = memory and min(memory, 8), min(cpus, 2), min(minutes, 30)
        partition = _REPORT_PARTITION.value or partition
    found = {"partition": partition, "cpus_per_task": cpus, "time": minutes}
    found["gpus_per_node"] = _GPUS.value if arrays else 0
    found["mem"] = memory and f"{math.ceil(memory * 1024)}MB"
    # All arrays together run no more tasks at once.
    found["array_parallelism"] = max(1, _ARRAY_PARALLELISM.value // max(arrays, 1))
    return {name: value for name, value in found.items() if value}  # others are the cluster's own


def _executor(
    workdir: Path, data_dir: Path | None, arrays: int, after: str | None = None
) -> "submitit.SlurmExecutor":
    """Returns an executor for a task of so many arrays, or with 0 for the report, after jobs."""
    import submitit

    class Executor(submitit.SlurmExecutor):
        """An executor without a check for a cluster: `_check` has one, and a dry run needs none."""

        affinity = classmethod(lambda cls: 2)

    python = shlex.quote(_python())
    executor = Executor(workdir / "slurm", max_num_timeout=_REQUEUES.value, python=python)
    resources = _resources(arrays)
    # Since SLURM 22.05 srun does not take this over from sbatch.
    srun = [f"--cpus-per-task={resources['cpus_per_task']}"]
    if _CONTAINER.value:
        seen = {_ROOT, Path.cwd(), workdir, *filter(None, [data_dir])}
        mounts = ",".join(f"{folder}:{folder}" for folder in sorted(seen))
        srun += [f"--container-image={_CONTAINER.value}", f"--container-mounts={mounts}"]
    executor.update_parameters(
        job_name=f"lsa_jax-{workdir.name}",
        nodes=1,
        ntasks_per_node=1,
        signal_delay_s=_WARNING_SECONDS,
        setup=[f"export PYTHONPATH={shlex.quote(str(_ROOT))}${{PYTHONPATH:+:$PYTHONPATH}}"],
        srun_args=srun,
        wckey=None,  # not submitit's own, which a cluster may refuse
        additional_parameters={"requeue": True, "chdir": str(Path.cwd())},
        **resources,
        **({"dependency": f"afterany:{after}"} if after else {}),
    )
    return executor


def _python() -> str:
    """Returns the interpreter of the tasks: this one, or a container's own."""
    return "python" if _CONTAINER.value else sys.executable


def _commands(
    workdir: Path, data_dir: Path | None, tasks: list[list[_sweeps.Group]]
) -> tuple[list[list[str]], list[str]]:
    """Returns the commands of the arrays' tasks, and of the job after them."""
    python, folders = [_python(), "-m"], [f"--workdir={workdir}"]
    data = [f"--data_dir={data_dir}"] if data_dir else []
    names = (",".join(group.name for group in task) for task in tasks)
    of_tasks = [[*python, "launch.groups", *folders, f"--groups={n}", *data] for n in names]
    return of_tasks, [*python, "launch.report", *folders]


def _arrays(commands: list[list[str]]) -> list[list[list[str]]]:
    """Cuts the commands of tasks into arrays that the cluster accepts: of MaxArraySize tasks."""
    most = max(len(commands), 1)
    if shutil.which("scontrol"):
        asked = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True)
        if found := re.search(r"^MaxArraySize\s*=\s*(\d+)", asked.stdout, re.MULTILINE):
            most = max(1, int(found[1]))  # numbers of tasks go from 0 to one less
    return [commands[first : first + most] for first in range(0, len(commands), most)]


def _print_script(executor: "submitit.SlurmExecutor", commands: list[list[str]]) -> None:
    """Prints the sbatch script of one job, or of an array, with its tasks' commands."""
    if len(commands) > 1:
        executor.parameters["map_count"] = len(commands)
    print(executor._make_submission_file_text(executor._submitit_command_str, "dry_run"))
    for number, command in enumerate(commands):
        print(f"# task {number}: {shlex.join(command)}")
    print()


def _submit(executor: "submitit.SlurmExecutor", commands: list[list[str]]) -> str:
    """Submits commands, several of them as an array; returns the job's number, or raises."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    from launch._task import SlurmTask

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit also prints its errors
            jobs = executor.map_array(SlurmTask(), commands)
    except (FailedJobError, FailedSubmissionError) as error:
        raise InputError(f"no job was made of {shlex.join(commands[0])}: {error}") from None
    return jobs[0].job_id.partition("_")[0]


def _refuse_twice(workdir: Path) -> None:
    """Raises while tasks that were submitted before wait or run, as they would be run again."""
    file = workdir / _ARRAY_FILE
    if not file.exists():
        return
    # Of several arrays, their numbers with commas.
    array = files.read_object(file, "remove it once no job of this sweep is queued").get("job")
    # Tasks that are just ending run nothing any more. For an old job squeue prints an error.
    states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED"
    command = ["squeue", "--noheader", f"--jobs={array}", states]
    queued = subprocess.run(command, capture_output=True, text=True, check=False)
    if queued.stdout.strip():
        raise InputError(
            f"--workdir {workdir}: job {array} is still queued, which runs this sweep; accepted: "
            f"the same command when it has ended, or after `scancel {str(array).replace(',', ' ')}`"
        )


def _submit_all(
    workdir: Path, data_dir: Path | None, arrays: list[list[list[str]]], report: list[str]
) -> None:
    """Submits the arrays and the report, and prints the numbers of their jobs."""
    numbers = []
    for commands in arrays:
        numbers.append(_submit(_executor(workdir, data_dir, len(arrays)), commands))
        files.write_json(workdir / _ARRAY_FILE, {"job": ",".join(numbers)})
        print(f"job {numbers[-1]}: {len(commands)} task(s)", flush=True)
    last = _submit(_executor(workdir, data_dir, 0, ":".join(numbers)), [report])
    print(f"job {last}: report")
    print(f"logs: {workdir / 'slurm'}; results: {workdir}")


def main() -> None:
    """Submits the arrays and the report, or prints their scripts."""
    _check()
    sweeps, data_dir = _sweeps.planned(), _cli.data_dir()
    workdir, data_dir = _cli.workdir().absolute(), data_dir and data_dir.absolute()

    # Only now: jax takes seconds to import, and mistakes should not.
    groups = _sweeps.missing(sweeps)
    tasks = _sweeps.tasks(groups, _GROUPS_PER_TASK.value)
    commands, report = _commands(workdir, data_dir, tasks)
    arrays = _arrays(commands)
    if _DRY_RUN.value:
        _cli.end_with_reader()
        print(f"# {_sweeps.describe(tasks, _GPUS.value)}")
        for array in arrays:
            _print_script(_executor(workdir, data_dir, len(arrays)), array)
        _print_script(_executor(workdir, data_dir, 0, "ARRAYS" if tasks else None), [report])
        return
    devices = [f"SLURM: {_CPUS.value} CPU cores and {_GPUS.value} GPUs a task"]
    with _sweeps.recorded(sweeps, groups, data_dir, devices):
        _refuse_twice(workdir)
        _submit_all(workdir, data_dir, arrays, report)


if __name__ == "__main__":
    _cli.run(main, configured=True)
