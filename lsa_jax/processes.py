"""Agreement and exchange of arrays among the processes of one command (`--distributed`).

All processes run the same program on the same arguments. Each does its share of the work and gets
the results of all, so that all take the same branches. Only the first, process 0, writes and
prints; it sends the others whatever it reads from disk.
"""

import collections
import functools
import pickle
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lsa_jax.errors import ElsewhereError, InputError, NumericalError, ReportedError

Tree = TypeVar("Tree")
Value = TypeVar("Value")

# Messages are padded to a multiple of this many bytes: every length is compiled once.
_MESSAGE = 4096


class _Failure(NamedTuple):
    """An error as another process can raise it."""

    process: int
    kind: type[InputError] | type[NumericalError] | None
    message: str


class ProcessGroup(NamedTuple):
    """Processes that work together, and the number of this one, from 0.

    All of them must call every method, in the same order; in a group of one, methods only call the
    function.
    """

    index: int
    size: int

    @property
    def is_first(self) -> bool:
        """Whether this process writes and prints."""
        return self.index == 0

    def gather(self, tree: Tree) -> Tree:
        """Returns the arrays of all processes, stacked by process, in each of them.

        Arrays have the same shapes and types in every process. The result has the same bits, as
        numpy arrays [processes, ...].
        """
        leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, tree))
        if self.size == 1 or not leaves:
            return jax.tree.unflatten(structure, [leaf[None] for leaf in leaves])
        # As bytes: one exchange for all arrays, and types stay.
        parts = [np.ascontiguousarray(leaf).reshape(-1).view(np.uint8) for leaf in leaves]
        rows = multihost_utils.process_allgather(np.concatenate(parts))
        stops = np.cumsum([len(part) for part in parts])
        gathered = [
            np.ascontiguousarray(columns).view(leaf.dtype).reshape(self.size, *leaf.shape)
            for columns, leaf in zip(np.split(rows, stops[:-1], axis=1), leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, gathered)

    def gather_devices(self, tree: Tree) -> Tree:
        """Returns the arrays on the devices of all processes, by process, in each of them.

        Arrays [devices, ...], as a mapped function returns them, are on equally many devices in
        every process; devices exchange them, and they are copied to the host once. Numpy arrays of
        that shape are gathered as such. The result has the same bits, as numpy arrays [processes,
        devices, ...].
        """
        leaves, structure = jax.tree.flatten(tree)
        if self.size == 1 or not all(isinstance(leaf, jax.Array) for leaf in leaves):
            return self.gather(tree)
        # One by one, so that a device holds only one of them whole.
        return jax.tree.unflatten(structure, [self._gather_array(leaf) for leaf in leaves])

    def _gather_array(self, array: jax.Array) -> np.ndarray:
        shards = sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
        mesh = Mesh(_counterparts([shard.device for shard in shards], self.size), ("devices",))
        rows, copies = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("devices",), ()))
        shape = (mesh.size, *array.shape[1:])
        parts = [shard.data for shard in shards]
        everywhere = jax.make_array_from_single_device_arrays(shape, rows, parts)
        found = np.asarray(_brought(copies)(everywhere).addressable_data(0))
        return found.reshape(self.size, len(shards), *array.shape[1:])

    def add_up(self, array: np.ndarray) -> np.ndarray:
        """Returns the sum of the processes' arrays of float64, the same bits in all of them.

        Each process adds up one part on its host, in the order of processes: twice the array's
        bytes go from and to each, for any number of processes, and sums stay in float64.
        """
        if self.size == 1:
            return array
        flat = np.zeros(-(-array.size // self.size) * self.size)
        flat[: array.size] = array.reshape(-1)
        device = jax.local_devices()[0]
        mesh = Mesh(_counterparts([device], self.size), ("processes",))
        by_giver, by_part = (
            NamedSharding(mesh, PartitionSpec(*axes))
            for axes in (("processes",), (None, "processes"))
        )
        mine = jax.device_put(flat.view(np.uint32).reshape(1, self.size, -1), device)
        shape = (self.size, *mine.shape[1:])
        given = jax.make_array_from_single_device_arrays(shape, by_giver, [mine])
        parts = np.asarray(_brought(by_part)(given).addressable_data(0))
        total = np.ascontiguousarray(parts[:, 0]).view(np.float64).sum(axis=0)
        return self.gather(total).reshape(-1)[: array.size].reshape(array.shape)

    def in_each(self, function: Callable[[], Value]) -> Value:
        """Calls a function in every process; if it fails in one of them, all raise.

        Raises:
            InputError: the first error of this kind, and so for NumericalError.
            ElsewhereError: another error in another process.
        """
        value, error = _attempt(function)
        if self.size > 1:
            # Only messages among processes of one command are pickled.
            mine = b"" if error is None else pickle.dumps(_describe(error, self.index))
            if messages := self._exchange(mine):
                self._raise_first(pickle.loads(messages[0]), error)
        if error is not None:
            raise error
        return value

    def in_any(self, value: bool) -> bool:
        """Whether a value is true in one of the processes."""
        return bool(self.gather(np.array(value)).any())

    def on_first(self, function: Callable[[], Value]) -> Value | None:
        """Calls a function in the first process only; the others get None, or its error."""
        return self.in_each(function if self.is_first else lambda: None)

    def from_first(self, function: Callable[[], Value]) -> Value:
        """Calls a function in the first process only; all get its result, or its error.

        The result is an object for pickle: numbers, numpy arrays, tuples and tables.
        """
        value = self.on_first(function)
        if self.size == 1:
            return value
        content = pickle.dumps(value) if self.is_first else b""
        size = int(multihost_utils.broadcast_one_to_all(np.int32(-(-len(content) // _MESSAGE))))
        sent = multihost_utils.broadcast_one_to_all(_padded(content, size * _MESSAGE))
        return value if self.is_first else pickle.loads(np.asarray(sent).tobytes())

    def _exchange(self, content: bytes) -> list[bytes]:
        """Returns the messages of all processes that have one, padded with zeros, in each."""
        sizes = self.gather(np.int32(-(-len(content) // _MESSAGE)))
        if not sizes.any():
            return []
        rows = self.gather(_padded(content, int(sizes.max()) * _MESSAGE))
        return [row.tobytes() for row, size in zip(rows, sizes, strict=True) if size]

    def _raise_first(self, first: _Failure, mine: Exception | None) -> NoReturn:
        """Raises the failure of the first process that failed, in a form for each process."""
        if first.kind is not None:
            reported = issubclass(first.kind, InputError) and not self.is_first
            raise (ReportedError if reported else first.kind)(first.message) from mine
        if first.process == self.index:
            raise mine
        raise ElsewhereError(first.message)


ALONE = ProcessGroup(0, 1)


def _counterparts(devices: Sequence[jax.Device], num_processes: int) -> np.ndarray:
    """Returns these devices of this process and their counterparts in the others, in order."""
    places = [jax.local_devices().index(device) for device in devices]
    local = [
        [device for device in jax.devices() if device.process_index == process]
        for process in range(num_processes)
    ]
    return np.array([of_one[place] for of_one in local for place in places])


@functools.lru_cache(maxsize=8)
def _brought(sharding: NamedSharding) -> Callable[[jax.Array], jax.Array]:
    """Returns a program that moves an array to a sharding, compiled once a shape."""
    return jax.jit(lambda array: array, out_shardings=sharding)


def _attempt(function: Callable[[], Value]) -> tuple[Value | None, Exception | None]:
    try:
        return function(), None
    except Exception as error:
        return None, error


def _describe(error: Exception, process: int) -> _Failure:
    where = f"process {process}: " if process else ""
    if isinstance(error, InputError | NumericalError):
        return _Failure(process, type(error), f"{where}{error}")
    return _Failure(process, None, f"process {process} failed: {type(error).__name__}: {error}")


def _padded(content: bytes, size: int) -> np.ndarray:
    return np.frombuffer(content.ljust(size, b"\0"), np.uint8)


def everyone() -> ProcessGroup:
    """Returns all processes of this command."""
    return ProcessGroup(jax.process_index(), jax.process_count())


def group_of(devices: Sequence[jax.Device]) -> ProcessGroup:
    """Returns the processes of these devices: this one, or all.

    Raises:
        InputError: they are of some processes but not of all, or of unequal numbers.
    """
    counts = collections.Counter(device.process_index for device in devices)
    if set(counts) == {jax.process_index()}:
        return ALONE
    if len(counts) < jax.process_count() or len(set(counts.values())) > 1:
        raise InputError(
            f"devices are {dict(counts)} by process; accepted: this process's own, or equally many "
            "of each process"
        )
    return everyone()


def own(devices: Sequence[jax.Device]) -> list[jax.Device]:
    """Returns the devices that belong to this process."""
    return [device for device in devices if device.process_index == jax.process_index()]
