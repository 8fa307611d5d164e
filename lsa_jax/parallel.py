"""Placement of work on devices: many replicas, or one large batch, on all of them.

Functions are mapped over devices only here. A *layout* places the work of a training loop:
`ReplicaLayout` gives each device a share of independent runs, `BatchLayout` a share of every batch
of one run. Both have the same methods, so the loop is written once.

Where several processes work together (see `processes`), each holds and maps the arrays of its own
devices, and `gather` returns the same numpy arrays in all of them.
"""

import functools
import math
import platform
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lsa_jax import backend, processes
from lsa_jax.checks import integer, require
from lsa_jax.errors import InputError

BATCH_AXIS = "batch_parts"

Tree = TypeVar("Tree")


def _put(tree: Tree, device: jax.Device) -> Tree:
    """Returns the tree with a leading axis of 1, in memory of its own on the device."""

    def put(array: Any) -> jax.Array:
        array = array if isinstance(array, jax.Array) else np.asarray(array)
        return jax.device_put(array[None], device, may_alias=False)

    return jax.tree.map(put, tree)


def copy_to_each(tree: Tree, devices: Sequence[jax.Device]) -> Tree:
    """Returns the tree with a leading axis of devices, a copy on each.

    Each copy goes straight to its device, so that the first one never holds all of them.
    """
    if backend.dry_run() is not None:
        return jax.tree.map(lambda a: backend.hollow(a, (len(devices),)), tree)
    return join_devices([_put(tree, device) for device in devices], devices)


def as_one_part(function: Callable, *arguments: Any) -> tuple[Callable, tuple]:
    """Returns a function of all of a batch with the axis of its parts, and its arguments' shapes.

    For programs that are only traced. A model of split batches averages over that axis, which must
    exist; here it has one part, [1, ...].
    """
    forms = jax.eval_shape(lambda *trees: trees, *arguments)
    forms = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), forms)
    return jax.vmap(function, axis_name=BATCH_AXIS), forms


def map_devices(
    function: Callable,
    devices: Sequence[jax.Device],
    *,
    axis_name: str = "devices",
    donate: bool = False,
) -> Callable:
    """Compiles a function of one device's arrays into one of [devices, ...], one entry on each.

    The function of trees of arrays may reduce over `axis_name`; `donate` lets the first argument's
    memory be used for the result.
    """
    if (recorder := backend.dry_run()) is not None:
        return recorder.map_devices(function, devices, axis_name, donate)
    given = {"donate_argnums": (0,)} if donate else {}

    def on_device(*arguments: Any) -> Any:
        alone = jax.tree.map(lambda a: a[0], arguments)
        return jax.tree.map(lambda a: a[None], function(*alone))

    # Not by `pmap`, which never lets go of a compiled program (JAX 0.10): on Linux a process that
    # trains some 70 groups has too many pieces of memory, and is aborted.
    mesh, spec = Mesh(np.array(devices), (axis_name,)), PartitionSpec(axis_name)
    mapped = jax.shard_map(on_device, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    compiled = jax.jit(mapped, **given)
    if len(processes.own(devices)) == len(devices):
        return compiled

    def call(*arguments: Any) -> Any:
        """Takes and returns arrays of this process's devices."""
        everywhere = multihost_utils.host_local_array_to_global_array(arguments, mesh, spec)
        return multihost_utils.global_array_to_host_local_array(compiled(*everywhere), mesh, spec)

    return call


def kept_programs(make: Callable, most: int = 16) -> Callable:
    """Caches the last results of a function that makes mapped functions or layouts.

    Not in a dry run, in which mapped functions return zeros and devices may be of other machines.
    """
    kept = functools.lru_cache(maxsize=most)(make)

    @functools.wraps(make)
    def call(*arguments: Any) -> Any:
        return (kept if backend.dry_run() is None else make)(*arguments)

    return call


def compile_function(function: Callable) -> Callable:
    """Compiles a heavy function for one device; in a dry run it is noted and returns zeros."""
    if backend.dry_run() is None:
        return jax.jit(function)
    mapped = map_devices(function, backend.devices()[:1])

    def call(*arguments: Any) -> Any:
        found = mapped(*jax.tree.map(lambda a: backend.hollow(a, (1,)), arguments))
        return jax.tree.map(lambda a: backend.hollow(a, start=1), found)

    return call


def split_devices(tree: Tree) -> list[Tree]:
    """Splits a mapped function's result [devices, ...] into each device's part [1, ...]."""

    def parts(array: jax.Array) -> list[jax.Array]:
        shards = sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
        return [shard.data for shard in shards]

    leaves, structure = jax.tree.flatten(tree)
    return [structure.unflatten(entry) for entry in zip(*map(parts, leaves), strict=True)]


def join_devices(entries: Sequence[Tree], devices: Sequence[jax.Device]) -> Tree:
    """Joins each device's part [1, ...] to [devices, ...] for a mapped function; nothing moves."""
    sharding = NamedSharding(Mesh(np.array(devices), ("devices",)), PartitionSpec("devices"))

    def join(*parts: jax.Array) -> jax.Array:
        shape = (len(parts), *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, sharding, list(parts))

    return jax.tree.map(join, *entries)


def in_one_kernel(function: Callable) -> Callable:
    """Compiles a function within a larger program as one kernel on CPUs; elsewhere unchanged.

    For loops whose steps are a few products of matrices with vectors. XLA's CPU executor gives
    every operation to any free thread, so that with several devices in a process each step waits
    for the caches of other cores. A kernel has one thread, and no products of two matrices.
    """
    # On other processors XLA chooses other kernels for products; not known to work there.
    if not backend.is_cpu() or platform.machine() not in ("x86_64", "AMD64"):
        return function
    inner = jax.jit(function)

    def call(*arguments: Any) -> Any:
        return set_xla_metadata(inner(*arguments), xla_cpu_small_call="true", inlineable="false")

    return call


def not_inlined(function: Callable) -> Callable:
    """Keeps a function apart from the program around it on CPUs; elsewhere unchanged.

    For the body of a loop: XLA's CPU compiler would put the choice of a step's arrays into every
    operation on them, whose loops over numbers are then without vectors.
    """
    if not backend.is_cpu():
        return function
    inner = jax.jit(function)
    return lambda *arguments: set_xla_metadata(inner(*arguments), inlineable="false")


def replicas_at_once(num_replicas: int) -> int:
    """Returns the number of replicas for one `ReplicaLayout` where more are waiting.

    All of them on an accelerator. On CPUs one a device: replicas run one after the other there, and
    a program of one serves any number of replicas.
    """
    return min(num_replicas, backend.device_count()) if backend.is_cpu() else num_replicas


class ReplicaLayout:
    """Independent runs of the same program, spread over the devices.

    Within a device the replicas run side by side (`vmap`) on an accelerator and one after the other
    on a CPU, where one replica already fills the cores and its working set stays in cache. So on
    CPUs the arithmetic of a replica does not depend on how many others there are.
    """

    num_parts = 1  # of a batch

    def __init__(self, num_replicas: int, devices: Sequence[jax.Device] | None = None) -> None:
        """Spreads `num_replicas` over `devices` (default: all), or fewer where these suffice."""
        require("num_replicas", num_replicas, integer(1))
        self.num_replicas = num_replicas
        devices = list(devices or backend.devices())
        self._group = processes.group_of(devices)
        self._share = math.ceil(num_replicas / self._group.size)  # of a process
        self._own = processes.own(devices)[: self._share]
        self.device_kinds = [device.device_kind for device in self._own] * self._group.size
        self._per_device = math.ceil(self._share / len(self._own))
        # None is one by one: a `vmap` over one replica takes a third longer.
        self._at_once = None if backend.is_cpu() else self._per_device

    def spread(self, tree: Tree) -> Tree:
        """Turns [replicas, ...] into [devices, replicas a device, ...], repeating the last one."""
        shape = (len(self._own), self._per_device)
        if backend.dry_run() is not None:
            return jax.tree.map(lambda a: backend.hollow(a, shape, start=1), tree)
        place = np.minimum(np.arange(math.prod(shape)), self._share - 1).reshape(shape)
        index = np.minimum(self._group.index * self._share + place, self.num_replicas - 1)
        shares = [
            _put(jax.tree.map(lambda a: a[replicas], tree), device)  # noqa: B023
            for replicas, device in zip(index, self._own, strict=True)
        ]
        return join_devices(shares, self._own)

    def share(self, tree: Tree) -> Tree:
        """Copies arrays that all replicas read (data) to every device."""
        return copy_to_each(tree, self._own)

    def gather(self, tree: Tree) -> Tree:
        """Turns results of `spread` or of a mapped function into numpy [replicas, ...]."""

        def in_order(found: np.ndarray) -> np.ndarray:
            """Turns [processes, devices, replicas a device, ...] into [replicas, ...]."""
            own = found.reshape(len(found), -1, *found.shape[3:])[:, : self._share]
            return own.reshape(-1, *found.shape[3:])[: self.num_replicas]

        return jax.tree.map(in_order, self._group.gather_devices(tree))

    def map(self, function: Callable, num_spread: int, *, donate: bool = False) -> Callable:
        """Compiles a function of one replica into one of all.

        It takes `num_spread` trees of one replica each, from `spread`, then shared trees, from
        `share`; `donate` lets the first argument's memory be used for the result.
        """

        @functools.wraps(function)
        def on_device(*arguments: Any) -> Any:
            spread, shared = arguments[:num_spread], arguments[num_spread:]
            return lax.map(lambda one: function(*one, *shared), spread, batch_size=self._at_once)

        return map_devices(on_device, self._own, donate=donate)

    def part(self, batch: Tree) -> Tree:
        """Returns a device's part of a batch: here, all of it."""
        return batch

    def total(self, tree: Tree) -> Tree:
        """Adds up over the parts of a batch: here, nothing to add."""
        return tree


class BatchLayout:
    """One run whose batches are split over the devices; gradients are added up."""

    num_replicas = 1

    def __init__(self, batch_size: int, devices: Sequence[jax.Device] | None = None) -> None:
        """Splits batches over `devices` (default: all).

        Raises:
            InputError: the batch cannot be split evenly.
        """
        require("batch_size", batch_size, integer(1))
        self._devices = list(devices or backend.devices())
        processes.group_of(self._devices)  # raises where they cannot work together
        self.num_parts = len(self._devices)
        self.device_kinds = [device.device_kind for device in self._devices]
        if batch_size % self.num_parts:
            raise InputError(
                f"batch_size is {batch_size}; data-parallel training on {self.num_parts} "
                f"devices accepts multiples of {self.num_parts}"
            )

    def spread(self, tree: Tree) -> Tree:
        """Copies the one run's arrays [1, ...] to every device."""
        return self.share(jax.tree.map(lambda a: a[0], tree))

    def share(self, tree: Tree) -> Tree:
        """Copies arrays that the run reads (data) to every device."""
        return copy_to_each(tree, processes.own(self._devices))

    def gather(self, tree: Tree) -> Tree:
        """Returns the first device's copy as numpy [1, ...]."""
        return jax.tree.map(lambda a: np.asarray(a[:1]), tree)

    def map(self, function: Callable, num_spread: int, *, donate: bool = False) -> Callable:
        """Compiles a function of one run, which calls `part` and `total`, for all devices."""
        del num_spread  # every argument lies whole on every device
        return map_devices(function, self._devices, axis_name=BATCH_AXIS, donate=donate)

    def part(self, batch: Tree) -> Tree:
        """Returns this device's slice of arrays [batch, ...]."""
        count, mine = self.num_parts, lax.axis_index(BATCH_AXIS)
        for leaf in jax.tree.leaves(batch):
            if not leaf.shape or leaf.shape[0] % count:
                raise InputError(
                    f"a batch has an array of shape {leaf.shape}; accepted on {count} devices: "
                    f"[n, ...] with n a multiple of {count}"
                )
        return jax.tree.map(lambda a: a.reshape(count, -1, *a.shape[1:])[mine], batch)

    def total(self, tree: Tree) -> Tree:
        """Adds up over the parts of a batch."""
        return lax.psum(tree, BATCH_AXIS)


Layout = ReplicaLayout | BatchLayout


@kept_programs
def layout_of(count: int, batch_size: int | None = None) -> Layout:
    """Returns the layout of many replicas, or of one run's batches; equal ones are one object."""
    return BatchLayout(batch_size) if batch_size else ReplicaLayout(count)
