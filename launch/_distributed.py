"""Flags with which several processes, on one host or on many, run one command together."""

import contextlib
import os
import re
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from absl import flags

from launch import _cli
from lsa_jax.errors import ElsewhereError, InputError, ReportedError, one_line
from lsa_jax.reporting import locks

if TYPE_CHECKING:
    from lsa_jax import processes

_DISTRIBUTED = flags.DEFINE_bool(
    "distributed",
    False,
    "Run as one of several processes that were started with the same command, one a host or one a "
    "GPU. SLURM's and a TPU's environment give its number; elsewhere the next three flags do.",
)
_COORDINATOR_ADDRESS = flags.DEFINE_string(
    "coordinator_address", None, "HOST:PORT at which process 0 can be reached by the others."
)
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "How many processes there are.")
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "Which of them this is, from 0.")

_PATIENCE = 280.0  # seconds that processes wait for each other at the start; jax aborts after 300
_LAST = 2.0  # seconds that process 0 stays after an error


def check() -> None:
    """Raises InputError where the flags are wrong; imports nothing."""
    settings = (_COORDINATOR_ADDRESS, _NUM_PROCESSES, _PROCESS_ID)
    given = [flag.name for flag in settings if flag.value is not None]
    if given and not _DISTRIBUTED.value:
        raise InputError(f"--{given[0]} is given without --distributed; accepted: both")
    address, count, index = (flag.value for flag in settings)
    if address is not None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise InputError(
                f"--coordinator_address is {address!r}; accepted: HOST:PORT with a port from 1 to "
                "65535, such as 10.0.0.1:8476"
            )
    if count is not None and count < 1:
        raise InputError(f"--num_processes is {count}; accepted: 1 or more")
    if index is not None and (index < 0 or (count is not None and index >= count)):
        most = " or more" if count is None else f" to {count - 1}, as --num_processes is {count}"
        raise InputError(f"--process_id is {index}; accepted: 0{most}")
    devices = os.environ.get("JAX_LOCAL_DEVICE_IDS", "") if _DISTRIBUTED.value else ""
    if devices and not all(part.strip().isdecimal() for part in devices.split(",")):
        raise InputError(
            f"JAX_LOCAL_DEVICE_IDS is {devices!r}; accepted: numbers of this host's GPUs, such as "
            "0,1"
        )


def _check_port(address: str) -> None:
    """Raises where another program listens already: jax would end with a segmentation fault."""
    try:
        socket.create_server(("", int(address.rpartition(":")[2]))).close()
    except OSError as error:
        raise InputError(
            f"--coordinator_address is {address!r}, and that port cannot be opened here: "
            f"{error.strerror}; accepted: a free port of process 0's host"
        ) from None


_held = contextlib.ExitStack()  # for as long as this process lives


def _take_place(address: str, process_id: int) -> None:
    """Raises where another process of this host is this one: jax would end all that run."""
    name = re.sub(r"[^\w.-]", "_", f"lsa_jax-{os.getuid()}-{address}-{process_id}.lock")
    try:
        _held.enter_context(locks.held(name, Path(tempfile.gettempdir()) / name))
    except locks.InUseError:
        raise InputError(
            f"--process_id is {process_id}, which runs on this host already with "
            f"--coordinator_address={address}; accepted: a command that does not run yet"
        ) from None


def _connect() -> "processes.ProcessGroup":
    """Joins the other processes and returns all of them; raises where that is impossible.

    The values of flags that are not given come from SLURM's, a TPU's or another environment that
    jax can read.
    """
    import jax

    from lsa_jax import processes

    # On a CPU jax needs a means of communication; accelerators have their own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # It would keep SIGTERM from ending the process, for a checkpoint that exists already.
    jax.config.update("jax_enable_preemption_service", False)
    address, count, index = _COORDINATOR_ADDRESS.value, _NUM_PROCESSES.value, _PROCESS_ID.value
    if address is not None and index == 0:
        _check_port(address)
    if address is not None and index is not None:
        _take_place(address, index)
    try:
        jax.distributed.initialize(address, count, index)
    except ValueError as error:
        raise InputError(
            f"--distributed: no SLURM, TPU or other environment describes the processes ({error}); "
            "accepted: --coordinator_address=HOST:PORT --num_processes=N --process_id=I"
        ) from None
    except RuntimeError as error:
        raise InputError(f"--distributed: the processes cannot be joined: {error}") from None
    processes.group_of(jax.devices())
    return processes.everyone()


def _end(group: "processes.ProcessGroup", status: int, message: str | None = None) -> NoReturn:
    """Ends this process without waiting for the others, which may wait for it."""
    if message is not None:
        where = "" if group.is_first else f" in process {group.index}"
        print(f"error{where}: {one_line(message)}", file=sys.stderr)
    if group.is_first:
        # They talk through this one: where they have found the same mistake, let them end first.
        time.sleep(_LAST)
    with contextlib.suppress(OSError):  # a reader that has gone, or a full disk
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _give_up() -> None:
    """Ends the process with one line before jax, tired of waiting for others, would abort it."""
    print(
        f"error: --distributed: not all processes have come within {_PATIENCE:g} s; accepted: "
        "the same command on every host, with an address that all of them reach",
        file=sys.stderr,
        flush=True,
    )
    os._exit(_cli.BAD_INPUT)


@contextlib.contextmanager
def joined() -> Iterator[bool]:
    """Joins the other processes if --distributed is set; to be entered before jax is used.

    Yields:
        Whether this process is the one that writes and prints. The standard output of the others
        goes nowhere. Where one of them fails, all end.

    Raises:
        InputError: flags are wrong, or the processes do not find each other.
    """
    check()
    if not _DISTRIBUTED.value:
        yield True
        return
    timer = threading.Timer(_PATIENCE, _give_up)
    timer.daemon = True
    timer.start()
    try:
        group = _connect()
    finally:
        timer.cancel()
    if not group.is_first:
        # The descriptor, because the libraries under jax write to it, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    try:
        yield group.is_first
    except ReportedError:
        _end(group, _cli.BAD_INPUT)
    except ElsewhereError as error:
        _end(group, 1, str(error) if group.is_first else None)
    except KeyboardInterrupt:
        _end(group, 130)
    except Exception as error:
        if (line := _cli.refusal(error)) is not None:
            _end(group, _cli.BAD_INPUT, line)
        # An exchange fails where another process has ended.
        if any(word in str(error) for word in ("Gloo", "NCCL", "UNAVAILABLE")):
            message = "another process has ended, perhaps with a reason; the same command of "
            _end(group, 1, f"{message} all processes goes on from here ({error})")
        traceback.print_exc()
        _end(group, 1)
