"""Every ridge, and errors on examples left out, of matrices that do not fit memory.

A pass over the matrix serves all ridges and right-hand sides: conjugate gradients go on for each
until it is solved, behind one partial Cholesky factor. Lanczos' iterations, or conjugate gradients
that share their directions between ridges, would do with fewer products but take no preconditioner,
and small ridges would need many times the passes, which are what costs where a matrix is read from
a disk.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax import arrays
from lsa_jax.checks import integer, require
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices.packed import PackedMatrix, pick
from lsa_jax.kernels.matrices.shards import ShardedRows, by_first
from lsa_jax.kernels.solve import blocks, preconditioner, problem
from lsa_jax.kernels.solve.checkpoint import Checkpoint
from lsa_jax.kernels.solve.conjugate_gradients import (
    DRIFT,
    IterativeRegression,
    Limits,
    check_options,
    find_rank,
    solve_columns,
    unsolved,
)
from lsa_jax.kernels.solve.preconditioner import Preconditioner

_SYSTEM = "matrix, targets, ridges, rank or probes"

# Relative standard error of the diagonal, root mean square over examples, up to which what it adds
# to the squares can be taken out.
_LARGEST_ERROR = 0.25


class LeaveOneOut(NamedTuple):
    """Estimates of the mean squared error on examples left out, one at a time.

    Attributes:
        errors: one a ridge.
        standard_errors: of the estimates, by what the probes differ in.
        iterations: passes over the matrix that it took.
    """

    errors: Float[np.ndarray, " r"]
    standard_errors: Float[np.ndarray, " r"]
    iterations: int


class _Solved(NamedTuple):
    """Solutions for each ridge, [ridges, n, c], and how they were found."""

    solutions: Float[np.ndarray, "r n c"]
    shifts: Float[np.ndarray, " r"]
    residuals: Float[np.ndarray, "r c"]
    iterations: int
    conditioner: Preconditioner


@by_first
def ridge_path_cg(
    gram_train: Float[Array | np.ndarray, "n n"] | PackedMatrix,
    targets: Float[Array | np.ndarray, "n c"],
    gram_test: Float[Array | np.ndarray, "m n"] | ShardedRows,
    ridges: Sequence[float],
    *,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
    rank: int | None = None,
    checkpoint: Path | str | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> list[IterativeRegression]:
    """Solves what `regress_cg` solves for several ridges at once: as many passes as the smallest.

    8 n (rank + 5 r c) bytes and one block beside the inputs, for r ridges.

    Args:
        gram_train: K, symmetric; may be memory-mapped, or packed or sharded as `gram` gives it.
        targets: Y.
        gram_test: K_test, test against training examples; may be memory-mapped or sharded.
        ridges: ridges over the mean diagonal of K, each 0 or more.
        tolerance: residual at which to stop, over the size of the target.
        max_iterations: after which to give up.
        rank: as in `regress_cg`.
        checkpoint: file that keeps the state of the iterations, a name that ends in .npz.
        progress: called with the iterations that are done and the largest residual, after each.

    Returns:
        One regression a ridge, in their order.

    Raises:
        InputError: sizes or options are not accepted, or a K that is not symmetric.
        NumericalError: as `regress_cg`, at any of the ridges.
    """
    gram_train = problem.matrix("gram_train", gram_train, whole=False)
    gram_test = problem.matrix("gram_test", gram_test, whole=False)
    targets, ridges = problem.targets_of(targets), problem.check_ridges(ridges)
    problem.check(gram_train, targets, gram_test)
    mean = targets.mean(axis=0, dtype=float)
    limits = Limits(tolerance, max_iterations)
    solved = _solve(gram_train, targets - mean, ridges, rank, limits, checkpoint, progress)
    weights = np.concatenate(list(solved.solutions), axis=1)
    products = np.split(blocks.multiply(gram_test, weights), len(ridges), axis=1)
    return [
        IterativeRegression(product + mean, own, ridge, solved.iterations, float(left.max()))
        for product, own, ridge, left in zip(
            products, solved.solutions, ridges, solved.residuals, strict=True
        )
    ]


@by_first
def leave_one_out_cg(
    gram_train: Float[Array | np.ndarray, "n n"] | PackedMatrix,
    targets: Float[Array | np.ndarray, "n c"],
    ridges: Sequence[float],
    *,
    key: Key[Array, ""],
    probes: int = 16,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    rank: int | None = None,
    checkpoint: Path | str | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> LeaveOneOut:
    """Estimates what `leave_one_out` computes, for matrices that do not fit memory.

    The error on example i of a fit without it is (G^{-1} Y)_i / (G^{-1})_ii, whose diagonal is
    estimated from random signs. Leaving out one of them after the other (the jackknife) takes out
    what the estimate's error adds to squares, and tells the standard error.

    8 n (rank + 5 r (c + 1 + probes)) bytes and one block beside the inputs, for r ridges.

    Args:
        gram_train: K, symmetric; may be memory-mapped, or packed or sharded as `gram` gives it.
        targets: Y.
        ridges: ridges over the mean diagonal of K, each above 0.
        key: draws the signs.
        probes: how many vectors of signs, 2 or more.
        tolerance: residual at which to stop, over the size of each right-hand side.
        max_iterations: after which to give up.
        rank: as in `regress_cg`; the larger, the smaller the standard errors.
        checkpoint: file that keeps the state of the iterations, a name that ends in .npz.
        progress: called with the iterations that are done and the largest residual, after each.

    Raises:
        InputError: sizes or options are not accepted, or a K that is not symmetric.
        NumericalError: as `regress_cg`, at any ridge; or too few probes for small ones.

    Source: Bekas, Kokiopoulou and Saad, An estimator for the diagonal of a matrix, 2007.
    """
    gram_train = problem.matrix("gram_train", gram_train, whole=False)
    targets, n = problem.targets_of(targets), len(gram_train)
    require("probes", probes, integer(2))
    key, ridges = arrays.random_key("key", key), problem.check_ridges(ridges)
    if min(ridges) == 0 or n < 2:
        raise InputError(
            f"ridges are {tuple(ridges)} for {n} examples; accepted: above 0, for 2 or more"
        )
    signs = np.asarray(jax.random.rademacher(key, (n, probes), np.int8), float)
    problem.check_kernel(gram_train)
    problem.check_targets(n, targets)
    centred = targets - targets.mean(axis=0, dtype=float)
    right = np.hstack([centred, np.ones((n, 1)), signs])
    limits = Limits(tolerance, max_iterations)
    solved = _solve(gram_train, right, ridges, rank, limits, checkpoint, progress)
    return _left_out(solved, gram_train.diagonal(), centred, signs, ridges)


def _left_out(
    solved: _Solved,
    diagonal: Float[np.ndarray, " n"],
    centred: Float[np.ndarray, "n c"],
    signs: Float[np.ndarray, "n s"],
    ridges: Sequence[float],
) -> LeaveOneOut:
    """Returns the estimates, of solutions for targets, ones and signs.

    The diagonal is that of the preconditioner, which is known, and a correction: the mean of
    z * (G^{-1} z - P^{-1} z) over signs z (Hutchinson's estimate, with the preconditioner as
    control variate). It is kept within 1 / G_ii and 1 / lambda, as the true one is.
    """
    n, width = centred.shape
    known = solved.conditioner.diagonals()
    conditioned = np.split(solved.conditioner(np.tile(signs, len(ridges))), len(ridges), axis=1)
    found = []
    for index, shift in enumerate(solved.shifts):
        of_targets, of_ones, of_signs = np.split(
            solved.solutions[index], [width, width + 1], axis=1
        )
        # The mean that is taken out is that of the other examples, as in `leave_one_out`.
        weights = of_targets + centred / (n - 1) * of_ones
        corrections = signs * (of_signs - conditioned[index])
        bounds = 1 / (np.asarray(diagonal, float) + shift), 1 / shift
        inverse = np.clip(known[index] + corrections.mean(axis=1), *bounds)
        _check_diagonal(inverse, corrections, ridges[index])
        found.append(_jackknife(np.sum(weights**2, axis=1), known[index], corrections, bounds))
    errors, standard_errors = np.array(found).T / width
    return LeaveOneOut(errors, standard_errors, solved.iterations)


def _check_diagonal(diagonal: np.ndarray, corrections: np.ndarray, ridge: float) -> None:
    """Raises NumericalError where a diagonal is not known well enough."""
    probes = corrections.shape[1]
    variances = corrections.var(axis=1, ddof=1) / probes
    error = float(np.sqrt(np.mean(variances / diagonal**2)))
    if error > _LARGEST_ERROR:
        needed = int(np.ceil(probes * (error / _LARGEST_ERROR) ** 2))
        raise NumericalError(
            f"the diagonal for ridge {ridge:g} has a relative standard error of {error:.2g} from "
            f"{probes} probes, above {_LARGEST_ERROR:g}; use about {needed} probes, a larger rank, "
            "or a larger ridge"
        )


def _jackknife(
    squares: Float[np.ndarray, " n"],
    known: Float[np.ndarray, " n"],
    corrections: Float[np.ndarray, "n s"],
    bounds: tuple[np.ndarray, float],
) -> tuple[float, float]:
    """Returns the mean of squares / diagonal^2 and its standard error; s estimates of the rest."""
    count, total = corrections.shape[1], corrections.sum(axis=1)

    def error(correction: np.ndarray) -> float:
        return float(np.mean(squares / np.clip(known + correction, *bounds) ** 2))

    whole = error(total / count)
    others = [error((total - own) / (count - 1)) for own in corrections.T]
    spread = (count - 1) * float(np.var(others))
    return count * whole - (count - 1) * float(np.mean(others)), np.sqrt(spread)


def _solve(
    gram_train: np.ndarray | PackedMatrix,
    right: Float[np.ndarray, "n c"],
    ridges: Sequence[float],
    rank: int | None,
    limits: Limits,
    checkpoint: Path | str | None,
    progress: Callable[[int, float], None] | None,
) -> _Solved:
    """Solves for all right-hand sides at all ridges, each within the tolerance."""
    n, width = right.shape
    rank = find_rank(n, rank, checkpoint)
    check_options(limits.tolerance, limits.iterations, rank)
    needed = 8.0 * (2 * n * rank + 6 * n * width * len(ridges) + len(ridges) * rank**2)
    problem.check_memory(n, needed, "fewer ridges at a time, or a lower rank")
    shifts = np.asarray(ridges, float) * blocks.mean_diagonal(gram_train)
    ends = pick(gram_train, np.array([0, n - 1]))
    system = gram_train.diagonal(), ends, right, shifts, rank
    make = functools.cache(lambda: preconditioner.make(gram_train, tuple(shifts), rank))
    solutions, iterations, residuals = solve_columns(
        functools.partial(blocks.multiply, gram_train),
        np.repeat(shifts, width),
        np.tile(right, len(ridges)),
        make,
        limits,
        Checkpoint(checkpoint, _SYSTEM, *system, settings={"rank": rank}),
        progress,
    )
    residuals = residuals.reshape(len(ridges), width)
    if not residuals.max() <= DRIFT * limits.tolerance:
        worst = ridges[int(residuals.max(axis=1).argmax())]
        system = f"{n} examples with ridge {worst:g}"
        raise unsolved(system, float(residuals.max()), iterations, limits)
    by_ridge = solutions.reshape(n, len(ridges), width).transpose(1, 0, 2)
    return _Solved(by_ridge, shifts, residuals, iterations, make())
