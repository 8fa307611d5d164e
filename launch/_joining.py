"""How the processes of one command (`--distributed`) find each other."""

import os
import re
import socket
import tempfile
from pathlib import Path

import filelock
import jax

from lsa_jax import processes
from lsa_jax.errors import InputError


def _check_port(address: str) -> None:
    """Raises where another program listens already: jax would end with a segmentation fault."""
    try:
        socket.create_server(("", int(address.rpartition(":")[2]))).close()
    except OSError as error:
        raise InputError(
            f"--coordinator_address is {address!r}, and that port cannot be opened here: "
            f"{error.strerror}; accepted: a free port of process 0's host"
        ) from None


def _check_local_devices() -> None:
    given = os.environ.get("JAX_LOCAL_DEVICE_IDS", "")
    if given and not all(part.strip().isdecimal() for part in given.split(",")):
        raise InputError(
            f"JAX_LOCAL_DEVICE_IDS is {given!r}; accepted: numbers of this host's GPUs, such as 0,1"
        )


_held: list[filelock.FileLock] = []  # for as long as this process lives


def _take_place(address: str, process_id: int) -> None:
    """Raises where another process of this host is this one: jax would end all that run."""
    name = re.sub(r"[^\w.-]", "_", f"lsa_jax-{os.getuid()}-{address}-{process_id}.lock")
    lock = filelock.FileLock(Path(tempfile.gettempdir()) / name, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise InputError(
            f"--process_id is {process_id}, which runs on this host already with "
            f"--coordinator_address={address}; accepted: a command that does not run yet"
        ) from None
    _held.append(lock)


def connect(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> processes.ProcessGroup:
    """Joins the other processes; to be called before any other use of jax.

    Args:
        coordinator_address: HOST:PORT where process 0 can be reached. None leaves it, and the
            other two, to SLURM's, a TPU's or another environment that jax can read.
        num_processes: how many there are.
        process_id: which of them this is, from 0.

    Returns:
        All of them.

    Raises:
        InputError: the environment lacks the values that were not given, the port is taken, this
            process runs here already, JAX_LOCAL_DEVICE_IDS is not a list of numbers, or the
            processes have not equally many devices each. (Where some do not come within 300 s, jax
            aborts the others.)
    """
    # On a CPU jax needs a means of communication; accelerators have their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # It would keep SIGTERM from ending the process, for a checkpoint that exists already.
    jax.config.update("jax_enable_preemption_service", False)
    _check_local_devices()
    if coordinator_address is not None and process_id == 0:
        _check_port(coordinator_address)
    if coordinator_address is not None and process_id is not None:
        _take_place(coordinator_address, process_id)
    try:
        jax.distributed.initialize(coordinator_address, num_processes, process_id)
    except ValueError as error:
        raise InputError(
            f"--distributed: no SLURM, TPU or other environment describes the processes ({error}); "
            "accepted: --coordinator_address=HOST:PORT --num_processes=N --process_id=I"
        ) from None
    except RuntimeError as error:
        raise InputError(f"--distributed: the processes cannot be joined: {error}") from None
    processes.group_of(jax.devices())
    return processes.everyone()
