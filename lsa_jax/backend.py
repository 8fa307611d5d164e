"""The kind of processor that programs are built for.

Programs may depend on it (a loop that fits a CPU's cache, a batch that fills an accelerator), so it
is looked up while they are traced and compiled. `built_for` sets another machine, for programs that
are lowered or compiled ahead of time.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from lsa_jax.checks import one_of, require

# Names in `lax.platform_dependent`; JAX's backend of either maker's GPUs is "gpu".
_NAMES = {"cpu": ("cpu",), "gpu": ("cuda", "rocm"), "tpu": ("tpu",)}


class _Machine(NamedTuple):
    platform: str
    memory: float | None
    count: int
    device: Any


# JAX keeps what it has traced for each value of this, so programs of two platforms never mix.
_BUILT_FOR = jax.make_user_context(None)

# The recorder that notes programs instead of running them, in a dry run.
_DRY_RUN: contextvars.ContextVar[Any] = contextvars.ContextVar("dry_run", default=None)


def platform() -> str:
    """Returns the kind of processor that programs are built for: JAX's default, or `built_for`."""
    machine = _BUILT_FOR.value
    return jax.default_backend() if machine is None else machine.platform


def memory() -> float | None:
    """Returns the bytes of an accelerator that JAX may use; None on CPUs, which share the host's.

    The total, not the free memory, so that choices by it are the same in every run.
    """
    machine = _BUILT_FOR.value
    if machine is not None:
        return machine.memory
    statistics = None if is_cpu() else jax.local_devices()[0].memory_stats()
    return statistics and statistics["bytes_limit"]


def is_cpu() -> bool:
    """Whether programs are built for CPUs."""
    return platform() == "cpu"


def is_elsewhere() -> bool:
    """Whether programs are built for a machine that may not be this one: within `built_for`."""
    return _BUILT_FOR.value is not None


def is_this(names: tuple[str, ...]) -> bool:
    """Whether these platforms of a `lax.platform_dependent` include the current one."""
    return not {platform(), *_NAMES.get(platform(), ())}.isdisjoint(names)


def device_count() -> int:
    """Returns the number of devices of all processes together."""
    machine = _BUILT_FOR.value
    return jax.device_count() if machine is None else machine.count


def devices() -> list[jax.Device]:
    """Returns all devices; in a dry run CPU devices in the number of the machine's own."""
    return jax.devices()[: device_count()]


def form(array: Any) -> jax.ShapeDtypeStruct:
    """Returns an array's shape and type, on a device of the current machine."""
    machine = _BUILT_FOR.value
    device = machine and machine.device
    sharding = None if device is None else SingleDeviceSharding(device)
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)


@contextlib.contextmanager
def built_for(
    name: str, memory: float | None = None, count: int = 1, device: Any = None
) -> Iterator[None]:
    """Builds everything traced within it for a kind of processor.

    Args:
        name: "cpu", "gpu" or "tpu".
        memory: bytes of one device; None where nothing may depend on it.
        count: devices.
        device: of a topology, for which kernels' tiles are compiled; None takes the default one.

    Raises:
        InputError: there is no such kind.
    """
    require("platform", name, one_of(*_NAMES))
    with _BUILT_FOR(_Machine(name, memory, count, device)):
        yield


def dry_run() -> Any:
    """Returns the recorder of a dry run; None where programs are run."""
    return _DRY_RUN.get()


@contextlib.contextmanager
def noted_by(recorder: Any) -> Iterator[None]:
    """Notes mapped functions, kernels' matrices and solutions in a `preflight.dry_run.DryRun`."""
    token = _DRY_RUN.set(recorder)
    try:
        yield
    finally:
        _DRY_RUN.reset(token)


def shapes_only(make: Callable[[], Any]) -> Any:
    """Returns a function's result; in a dry run zeros of the same shapes, without the work."""
    if dry_run() is None:
        return make()
    return jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), jax.eval_shape(make))


def hollow(array: Any, lead: tuple[int, ...] = (), start: int = 0) -> Any:
    """Returns zeros of an array's type that take no memory, for a dry run.

    The sizes `lead` replace so many (`start`) of the first axes of the array, or its form.
    """
    array = array if hasattr(array, "dtype") else np.asarray(array)
    shape = (*lead, *array.shape[start:])
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        return jax.numpy.broadcast_to(jax.random.key(0), shape)
    return np.broadcast_to(np.zeros((), jax.dtypes.canonicalize_dtype(array.dtype)), shape)


def each(segments: Sequence[int], lengths: Sequence[int]) -> Iterator[int]:
    """Yields segments of work; in a dry run one segment of each length."""
    recorder = dry_run()
    return iter(segments) if recorder is None else recorder.each(segments, lengths)
