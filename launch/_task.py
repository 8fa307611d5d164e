"""A task of a SLURM job: a command that is queued again when its time is over."""

import shutil
import subprocess
import sys

import submitit

# SLURM sends its warnings to every process of a job; the command would die, and the job count as
# failed before it is queued again. Ignored signals stay ignored in the program that follows.
_LEAVE_WARNINGS_TO_THE_TASK = ["/bin/sh", "-c", 'trap "" TERM USR1 USR2; exec "$@"', "sh"]


class SlurmTask(submitit.helpers.Checkpointable):
    """A command in a process of its own, started again from its checkpoints where it was stopped.

    In a process of its own, because Python answers SLURM's warning only between two calls into
    compiled code, and an epoch can take longer than is left. The command may be killed at any
    moment.
    """

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._process: subprocess.Popen | None = None

    def __call__(self, command: list[str]) -> None:
        """Runs the command and ends with its exit status."""
        self._process = subprocess.Popen([*_LEAVE_WARNINGS_TO_THE_TASK, *command])
        status = self._process.wait()
        if status:
            sys.exit(status if status > 0 else 128 - status)

    def checkpoint(self, command: list[str]) -> submitit.helpers.DelayedSubmission:
        """Stops the command and returns the submission for submitit to queue again.

        Where that is impossible the job ends with status 1 and one line with the way out.
        """
        if self._process is not None:
            self._process.kill()
        if shutil.which("scontrol") is None:
            sys.exit(
                "error: the time is over, and without scontrol on this node the task cannot queue "
                "itself again; the same launch.slurm command goes on from here"
            )
        return submitit.helpers.DelayedSubmission(SlurmTask(), command)
