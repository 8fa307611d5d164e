"""File locks of a sweep's folder: for one process alone, or for several on different groups.

Reports have a lock of their own. The system frees all locks even if their process is killed.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import filelock

from lsa_jax.errors import InputError, StorageError


class InUseError(InputError):
    """Another process works in the folder, or on the group."""


# Seconds to wait for a lock that others hold for a moment (launch.slurm, until sbatch has answered
# twice), or until they are dead.
_PATIENCE = 60.0


@contextlib.contextmanager
def _refusing(workdir: Path) -> Iterator[None]:
    """Raises InputError in one line where a folder is in use, or cannot be written."""
    try:
        yield
    except filelock.Timeout:
        raise InUseError(f"--workdir {workdir} is in use by another sweep; wait for it") from None
    except (OSError, NotImplementedError) as error:  # the latter of filelock, without flock
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"--workdir {workdir} cannot be written: {reason}") from None


def _folder_lock(workdir: Path, timeout: float) -> filelock.FileLock:
    return filelock.FileLock(workdir / ".lock", timeout=timeout)


@contextlib.contextmanager
def alone(workdir: Path) -> Iterator[None]:
    """Holds a folder, made if need be: nothing else can run in it.

    Raises:
        InputError: something runs in it, or it cannot be written.
    """
    with contextlib.ExitStack() as stack:
        with _refusing(workdir):
            workdir.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_folder_lock(workdir, timeout=0))
            for path in (workdir / "groups").glob("*.lock"):
                with filelock.FileLock(path, timeout=0):
                    pass
        yield


@contextlib.contextmanager
def holding(workdir: Path, names: list[str], *, wait: bool = True) -> Iterator[None]:
    """Holds some groups: other groups may run at the same time, but no process alone.

    Args:
        workdir: the folder.
        names: of the groups.
        wait: for a group that is held by another, a minute.

    Raises:
        InUseError: a group or the whole folder is held by another.
        InputError: the folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        with _refusing(workdir):
            (workdir / "groups").mkdir(exist_ok=True)
            for name in names:
                path, patience = workdir / "groups" / f"{name}.lock", _PATIENCE if wait else 0
                stack.enter_context(filelock.FileLock(path, timeout=patience))
            with _folder_lock(workdir, timeout=_PATIENCE):  # only to see that nobody holds it
                pass
        yield


@contextlib.contextmanager
def reporting(workdir: Path) -> Iterator[None]:
    """Holds the files of a folder's report; waits for another report to be written.

    Raises:
        InputError: the folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        with _refusing(workdir):
            stack.enter_context(filelock.FileLock(workdir / ".report.lock"))
        yield
