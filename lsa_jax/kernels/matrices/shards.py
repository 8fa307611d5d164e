"""Matrices of which each process of a command keeps its share alone, and what multiplies them.

The methods of such a matrix are called by all processes, with the same arguments, and give the same
to all: each goes through its own share, and what they find is added up. What has to decide as it
goes, as a solver does, is called in the first process alone (`led`); the others do their share of
each product until it is done. So the first alone decides, however the others round.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from lsa_jax import arrays
from lsa_jax.errors import InputError
from lsa_jax.processes import ProcessGroup

Value = TypeVar("Value")

# Bytes of the entries that are widened to float64 at a time. Many at once make one long product,
# which took less than a tenth of the time of as many short ones.
WIDENED = 64e6


def shard_of(count: int, group: ProcessGroup) -> range:
    """Returns which of so many things, in order, are this process's: about as many in each."""
    return range(count * group.index // group.size, count * (group.index + 1) // group.size)


def own_path(path: Path, group: ProcessGroup) -> Path:
    """Returns the file of this process's share, `NAME.01of04.npy`; in a group of one `NAME.npy`."""
    if group.size == 1:
        return path
    return path.with_stem(f"{path.stem}.{group.index:02}of{group.size:02}")


class Sharded:
    """A matrix that processes may share.

    Attributes:
        group: the processes, each with its share; one that has the whole is alone.
        ask: has the others call a method, within `led`.
    """

    ndim = 2

    def __init__(self, group: ProcessGroup) -> None:
        """Takes the processes."""
        self.group = group
        self.ask: Callable[[str, tuple], Any] | None = None

    def added_up(self, own: Callable[[], np.ndarray]) -> np.ndarray:
        """Returns the sum of what a function gives in each process; if one fails, all raise."""
        return self.group.add_up(self.group.in_each(own))


def by_all(method: Callable) -> Callable:
    """Has the other processes take part in a method that the first one calls within `led`."""

    @functools.wraps(method)
    def call(self: Sharded, *arguments: Any) -> Any:
        if self.ask is not None:
            self.ask(method.__name__, arguments)
        return method(self, *arguments)

    return call


def led(function: Callable[[], Value], *matrices: Any) -> Value:
    """Calls a function in the first process of those that share matrices; all get its result.

    Args:
        function: may call the matrices' methods, and no other that processes call together. What it
            returns or raises goes to all; it must be what pickle can take.
        matrices: those that the function uses; where none is sharded it is just called.
    """
    sharded = [one for one in matrices if isinstance(one, Sharded) and one.group.size > 1]
    if not sharded:
        return function()
    group, value, failure = sharded[0].group, None, None
    if group.is_first:
        for number, matrix in enumerate(sharded):
            matrix.ask = lambda *method, number=number: group.from_first(lambda: (number, *method))
        try:
            value = function()
        except Exception as error:
            failure = error
        finally:
            for matrix in sharded:
                matrix.ask = None
        group.from_first(lambda: None)
    else:
        while (asked := group.from_first(lambda: None)) is not None:
            number, method, arguments = asked
            getattr(sharded[number], method)(*arguments)

    def outcome() -> Value:
        if failure is not None:
            raise failure
        return value

    return group.from_first(outcome)


def by_first(function: Callable) -> Callable:
    """Has the first process alone work out what depends on sharded matrices: see `led`."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return led(lambda: function(*arguments, **named), *arguments, *named.values())

    return call


class ShardedRows(Sharded):
    """A matrix of which each process keeps some rows, as `gram(x1, x2, sharded=True)` gives it."""

    def __init__(
        self, own: Float[np.ndarray, "own_rows n"], count: int, group: ProcessGroup
    ) -> None:
        """Takes this process's rows, of so many in all."""
        super().__init__(group)
        checked = arrays.real_numbers("own", own)
        self.own, self._count = own if isinstance(own, np.ndarray) else checked, count
        arrays.check_axes("own", self.own.shape, "m n", empty=True)
        rows = len(shard_of(count, group))
        if len(self.own) != rows or not self.own.shape[1]:
            raise InputError(f"own has shape {self.own.shape}; accepted: ({rows}, n), n 1 or more")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, those of all processes."""
        return self._count, self.own.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """Of the values."""
        return self.own.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that this process keeps."""
        return self.own.nbytes

    def __len__(self) -> int:
        return self._count

    @by_all
    def is_finite(self) -> bool:
        """Says whether all entries are finite."""
        return not self.added_up(lambda: np.array([not np.isfinite(self.own).all()], float)).any()

    @by_all
    def multiply(self, vectors: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "m c"]:
        """Returns the product in float64."""

        def product() -> np.ndarray:
            found = np.zeros((self._count, vectors.shape[1]))
            first = shard_of(self._count, self.group).start
            step = max(1, int(WIDENED / (8 * self.own.shape[1])))
            for start in range(0, len(self.own), step):
                some = np.asarray(self.own[start : start + step], float)
                found[first + start : first + start + len(some)] = some @ vectors
            return found

        return self.added_up(product)
