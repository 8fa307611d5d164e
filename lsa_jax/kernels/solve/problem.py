"""Checks of a regression problem, whose matrices may be larger than memory."""

import functools
from typing import Any

import numpy as np
from jaxtyping import Real, Shaped

from lsa_jax import arrays
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.sharded import PackedMatrix, Sharded, is_finite

# Side of a square block: two blocks are compared within the cache.
_SIDE = 1024

# Rounding of a float32 kernel stays far below this share of the mean diagonal; mistakes do not.
_LARGEST_ASYMMETRY = 1e-3


def check_ridge(ridge: Any) -> float:
    """Returns a ridge that is a finite number and not negative, or raises InputError."""
    number = float(arrays.real_array("ridge", ridge, ""))
    if not 0 <= number < np.inf:
        raise InputError(f"ridge is {ridge}; accepted: 0 or more")
    return number


def check_ridges(ridges: Any) -> list[float]:
    """Returns ridges, one or more, all of them accepted, or raises InputError."""
    numbers = np.asarray(arrays.real_array("ridges", ridges, "r", empty=True)).tolist()
    if not numbers:
        raise InputError("there are no ridges to choose among; accepted: at least one")
    return [check_ridge(ridge) for ridge in numbers]


def matrix(name: str, values: Any, *, whole: bool = True) -> Shaped[np.ndarray, "m n"] | Sharded:
    """Returns a matrix that may be larger than memory: no entry is read, and none is copied.

    If `whole`, a packed matrix is laid out as an array; else it is returned unchanged. Raises
    InputError unless it has two axes of real numbers.
    """
    if isinstance(values, Sharded) and not whole:
        return values
    found = np.asarray(arrays.real_numbers(name, values))
    arrays.check_axes(name, found.shape, "m n", empty=True)
    return found


def targets_of(targets: Any) -> Real[np.ndarray, "n c"]:
    """Returns targets as an array, or raises InputError."""
    found = np.asarray(arrays.real_array("targets", targets, empty=True))
    check_columns(found)
    return found


def check_columns(targets: Shaped[np.ndarray, "..."]) -> None:
    """Raises InputError unless targets are [n, c], c 1 or more."""
    if targets.ndim == 1 and targets.dtype.kind in "iu":
        raise InputError(
            f"targets has shape {targets.shape}; accepted: [n, c]; jax.nn.one_hot(targets, "
            "classes) turns class numbers into targets, targets[:, None] makes one column of them"
        )
    arrays.check_axes("targets", targets.shape, "n c", empty=True)
    if not targets.shape[1]:
        raise InputError(f"targets has shape {targets.shape}; accepted: [n, c], c 1 or more")


def check_kernel(gram_train: np.ndarray | PackedMatrix) -> None:
    """Raises unless a matrix is square, finite, symmetric to rounding, with a positive trace."""
    if gram_train.shape[0] != gram_train.shape[1] or not len(gram_train):
        raise InputError(f"gram_train is {gram_train.shape}; accepted: (n, n) with n 1 or more")
    _check_finite("gram_train", gram_train)
    trace = mean_diagonal(gram_train) * len(gram_train)
    if not trace > 0:
        raise InputError(f"gram_train has trace {trace:g}; accepted: more than 0")
    asymmetry = _asymmetry(gram_train) / (trace / len(gram_train))
    if asymmetry > _LARGEST_ASYMMETRY:
        raise InputError(
            f"gram_train differs from its transpose by {asymmetry:.2g} of its mean diagonal; "
            "accepted: a symmetric matrix, as gram(kernel, x) gives"
        )


def check_targets(
    n: int, targets: np.ndarray, gram_test: np.ndarray | Sharded | None = None
) -> None:
    """Raises unless targets, and test against training examples, fit n training examples."""
    if len(targets) != n:
        raise InputError(f"targets are {targets.shape}; accepted with {n} examples: ({n}, c)")
    _check_finite("targets", targets)
    if gram_test is not None:
        if gram_test.shape[1] != n:
            raise InputError(
                f"gram_test is {gram_test.shape}; accepted with {n} training examples: (m, {n})"
            )
        _check_finite("gram_test", gram_test)


def checked(
    gram_train: Any, targets: Any, gram_test: Any, *, whole: bool = True
) -> tuple[Any, np.ndarray, Any]:
    """Returns the three as arrays, see `matrix`; raises unless they make one problem."""
    gram_train, gram_test = (
        matrix(name, given, whole=whole)
        for name, given in (("gram_train", gram_train), ("gram_test", gram_test))
    )
    targets = targets_of(targets)
    check_kernel(gram_train)
    check_targets(len(gram_train), targets, gram_test)
    return gram_train, targets, gram_test


def _check_finite(name: str, values: np.ndarray | Sharded) -> None:
    if not is_finite(values):
        raise NumericalError(f"{name} has entries that are not finite; accepted: finite numbers")


def check_memory(n: int, needed: float, instead: str, of: str = "examples") -> None:
    """Raises InputError where solving for n examples, or n of another kind, exceeds the memory."""
    memory.check_fits_host(f"solving for {n} {of}", needed, f"fewer {of}, or {instead}")


def not_positive_definite(n: int, ridge: float, smallest: float) -> NumericalError:
    """Returns the error, with the ridge needed by a smallest eigenvalue over the mean diagonal."""
    return NumericalError(
        f"the kernel matrix of {n} examples is not positive definite with ridge "
        f"{ridge:g}: its smallest eigenvalue is {smallest:.2g} of its mean diagonal; use a ridge "
        f"well above {max(-smallest, np.finfo(float).eps):.2g}, or remove examples that are equal"
    )


def mean_diagonal(matrix: Shaped[np.ndarray, "n n"] | PackedMatrix) -> float:
    """Returns trace(K) / n in float64."""
    return float(np.mean(matrix.diagonal(), dtype=float))


def _asymmetry(matrix: np.ndarray | PackedMatrix) -> float:
    """Returns the largest difference of a matrix from its transpose."""
    if isinstance(matrix, PackedMatrix):
        return 0.0
    starts = range(0, len(matrix), _SIDE)
    # Differences of unsigned integers would wrap around, and 16 bits overflow.
    subtract = functools.partial(np.subtract, dtype=np.result_type(matrix.dtype, np.float32))

    def apart(i: int, j: int) -> float:
        some, mirrored = matrix[i : i + _SIDE, j : j + _SIDE], matrix[j : j + _SIDE, i : i + _SIDE]
        return float(np.abs(subtract(some, mirrored.T)).max())

    return max(apart(i, j) for i in starts for j in starts if i <= j)
