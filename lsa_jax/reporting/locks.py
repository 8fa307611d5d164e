"""File locks: of a sweep's folder, for one process alone or for several on different groups.

Reports have a lock of their own. The system frees all locks even if their process is killed.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import filelock

from lsa_jax.errors import InputError, StorageError


class InUseError(InputError):
    """Another process works in the folder, on the group, or on the file."""


# Seconds to wait for a lock that others hold for a moment (launch.slurm, until sbatch has answered
# twice), or until they are dead.
_PATIENCE = 60.0


@contextlib.contextmanager
def held(name: str, *paths: Path, timeout: float = 0) -> Iterator[None]:
    """Holds files as locks, in folders that are made if need be.

    Args:
        name: the beginning of messages, such as "--workdir runs/fig6".
        *paths: the files.
        timeout: seconds to wait for each; -1: forever.

    Raises:
        InUseError: another process holds one of them.
        InputError: a folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(filelock.FileLock(path, timeout=timeout))
        except filelock.Timeout:
            raise InUseError(f"{name} is in use by another process; wait for it") from None
        except (OSError, NotImplementedError) as error:  # the latter of filelock, without flock
            reason = getattr(error, "strerror", None) or error
            raise StorageError(f"{name} cannot be written: {reason}") from None
        yield


def _of(workdir: Path, timeout: float, *paths: Path) -> contextlib.AbstractContextManager[None]:
    return held(f"--workdir {workdir}", *paths, timeout=timeout)


@contextlib.contextmanager
def alone(workdir: Path, timeout: float = 0) -> Iterator[None]:
    """Holds a folder, made if need be: nothing else can run in it.

    Raises:
        InputError: something runs in it, or it cannot be written.
    """
    with _of(workdir, timeout, workdir / ".lock"):
        with _of(workdir, timeout, *(workdir / "groups").glob("*.lock")):
            pass
        yield


@contextlib.contextmanager
def holding(workdir: Path, names: list[str], *, wait: bool = True) -> Iterator[None]:
    """Holds groups of a folder: other groups may run at the same time, but no process alone.

    With `wait` it waits a minute for a group that is held by another.

    Raises:
        InUseError: a group or the whole folder is held by another.
        InputError: the folder cannot be written.
    """
    paths = [workdir / "groups" / f"{name}.lock" for name in names]
    with _of(workdir, _PATIENCE if wait else 0, *paths):
        with _of(workdir, _PATIENCE, workdir / ".lock"):  # only to see that nobody holds it
            pass
        yield


def reporting(workdir: Path) -> contextlib.AbstractContextManager[None]:
    """Holds the files of a folder's report; waits for another report to be written.

    Raises:
        InputError: the folder cannot be written.
    """
    return _of(workdir, -1, workdir / ".report.lock")
