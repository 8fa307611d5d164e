"""Examples that are never all in memory."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Shaped

from lsa_jax import arrays
from lsa_jax.checks import integer, require
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices.file import digest
from lsa_jax.kernels.solve import problem

# Examples of a batch of arrays: their features take 33 MB for 1,000 centres.
_BATCH = 4096


def with_batch(told: str, inputs: np.ndarray, targets: np.ndarray) -> str:
    """Returns what tells some batches and one more from others, of what tells those before."""
    return hashlib.sha256((told + digest(inputs) + digest(targets)).encode()).hexdigest()


class Stream(NamedTuple):
    """Examples that come a batch at a time, and are the same whenever a batch is asked for again.

    Attributes:
        batch: `number -> (inputs [b, ...], targets [b, c])`, of batches numbered from 0.
        count: how many batches there are.
    """

    batch: Callable[[int], tuple[Any, Any]]
    count: int

    @classmethod
    def of(
        cls,
        inputs: Shaped[Array | np.ndarray, "n ..."],
        targets: Float[Array | np.ndarray, "_n c"],
        size: int = _BATCH,
    ) -> "Stream":
        """Returns the rows of two arrays, `size` at a time; they may be memory-mapped.

        Raises:
            InputError: unequal lengths, no rows, or a size below 1.
        """
        require("size", size, integer(1))
        inputs = arrays.real_numbers("inputs", inputs)
        arrays.check_axes("inputs", inputs.shape, "n ...")
        targets = arrays.real_numbers("targets", targets)  # perhaps of a file: not read here
        problem.check_columns(targets)
        if len(inputs) != len(targets):
            raise InputError(
                f"inputs are {inputs.shape} and targets {targets.shape}; accepted: (n, ...) and "
                "(n, c)"
            )

        def batch(number: int) -> tuple[Any, Any]:
            rows = slice(number * size, (number + 1) * size)
            return inputs[rows], targets[rows]

        return cls(batch, -(-len(inputs) // size))

    def checked(self, number: int, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns a batch as arrays.

        Raises:
            InputError: its shapes do not fit the centres or each other.
            NumericalError: targets that are not finite.
        """
        inputs, targets = self.batch(number)
        inputs = np.asarray(arrays.real_array("inputs", inputs, "n ...", empty=True))
        targets = problem.targets_of(targets)
        if not len(inputs) or inputs.shape[1:] != centres.shape[1:]:
            raise InputError(
                f"batch {number} has inputs {inputs.shape}; accepted with centres {centres.shape}: "
                "equal shapes but for the first axis, of 1 or more"
            )
        problem.check_targets(len(inputs), targets)
        return inputs, targets

    def told(self, count: int, centres: np.ndarray) -> str:
        """Returns what tells the first batches from others: a SHA-256 of all that is in them."""
        told = ""
        for number in range(count):
            told = with_batch(told, *self.checked(number, centres))
        return told
