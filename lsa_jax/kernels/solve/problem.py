"""What a regression problem must be, and what is said where it cannot be solved."""

from collections.abc import Sequence

import numpy as np

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.packed import PackedMatrix
from lsa_jax.kernels.matrices.shards import Sharded
from lsa_jax.kernels.solve import blocks

# Rounding of a float32 kernel stays far below this share of the mean diagonal; mistakes do not.
LARGEST_ASYMMETRY = 1e-3


def check_ridge(ridge: float) -> None:
    """Raises InputError unless the ridge is finite and not negative."""
    if not 0 <= ridge < np.inf:
        raise InputError(f"ridge is {ridge}; accepted: 0 or more")


def check_ridges(ridges: Sequence[float]) -> None:
    """Raises InputError unless there are ridges, all of them accepted."""
    if not len(ridges):
        raise InputError("there are no ridges to choose among; accepted: at least one")
    for ridge in ridges:
        check_ridge(ridge)


def check_kernel(gram_train: np.ndarray | PackedMatrix) -> None:
    """Raises unless a matrix is square, finite, symmetric to rounding, with a positive trace.

    Raises:
        InputError: its shape, its trace or its asymmetry.
        NumericalError: entries that are not finite.
    """
    if gram_train.ndim != 2 or gram_train.shape[0] != gram_train.shape[1] or not len(gram_train):
        raise InputError(f"gram_train is {gram_train.shape}; accepted: (n, n) with n 1 or more")
    _check_finite("gram_train", gram_train)
    trace = blocks.mean_diagonal(gram_train) * len(gram_train)
    if not trace > 0:
        raise InputError(f"gram_train has trace {trace:g}; accepted: more than 0")
    asymmetry = blocks.asymmetry(gram_train) / (trace / len(gram_train))
    if asymmetry > LARGEST_ASYMMETRY:
        raise InputError(
            f"gram_train differs from its transpose by {asymmetry:.2g} of its mean diagonal; "
            "accepted: a symmetric matrix, as gram(kernel, x) gives"
        )


def check_targets(
    n: int, targets: np.ndarray, gram_test: np.ndarray | Sharded | None = None
) -> None:
    """Raises unless targets, and test against training examples, fit n training examples.

    Raises:
        InputError: their shapes.
        NumericalError: entries that are not finite.
    """
    if targets.ndim != 2 or len(targets) != n:
        raise InputError(f"targets are {targets.shape}; accepted with {n} examples: ({n}, c)")
    _check_finite("targets", targets)
    if gram_test is not None:
        if gram_test.ndim != 2 or gram_test.shape[1] != n:
            raise InputError(
                f"gram_test is {gram_test.shape}; accepted with {n} training examples: (m, {n})"
            )
        _check_finite("gram_test", gram_test)


def check(
    gram_train: np.ndarray | PackedMatrix, targets: np.ndarray, gram_test: np.ndarray | Sharded
) -> None:
    """Raises unless the three belong to one problem that can be solved.

    Raises:
        InputError: sizes that do not fit, or a kernel that is not one.
        NumericalError: entries that are not finite.
    """
    n = len(targets)
    if not n:
        raise InputError("there are 0 targets; accepted: 1 or more")
    if targets.ndim != 2 or gram_train.shape != (n, n) or gram_test.shape[1:] != (n,):
        raise InputError(
            f"targets are {targets.shape}, gram_train is {gram_train.shape} and gram_test "
            f"{gram_test.shape}; accepted with {n} targets: ({n}, c), ({n}, {n}) and (m, {n})"
        )
    check_targets(n, targets, gram_test)
    check_kernel(gram_train)


def _check_finite(name: str, values: np.ndarray | Sharded) -> None:
    if not blocks.is_finite(values):
        raise NumericalError(f"{name} has entries that are not finite; check the kernel")


def check_memory(n: int, needed: float, instead: str, of: str = "examples") -> None:
    """Raises InputError where solving for n examples, or `of` what, takes more than there is."""
    available = memory.host_available()
    if needed > available:
        raise InputError(
            f"solving for {n} {of} takes {needed:.3g} bytes of memory, and {available:.3g} are "
            f"available; accepted: fewer {of}, or {instead}"
        )


def not_positive_definite(n: int, ridge: float, smallest: float) -> NumericalError:
    """Says what ridge it takes, from the smallest eigenvalue over the mean diagonal."""
    return NumericalError(
        f"the kernel matrix of {n} examples is not positive definite with ridge "
        f"{ridge:g}: its smallest eigenvalue is {smallest:.2g} of its mean diagonal; use a ridge "
        f"well above {max(-smallest, np.finfo(float).eps):.2g}, or remove examples that are equal"
    )
