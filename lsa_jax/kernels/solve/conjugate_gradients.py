"""Kernel ridge regression by conjugate gradients, for matrices that do not fit memory.

Each iteration reads the matrix once, for all targets and ridges together, block by block: matrices
may be memory-mapped from files. The preconditioner is a partial Cholesky factorisation with pivots,
of the kernel's largest directions, plus a multiple of the identity for the others: the more the
eigenvalues spread above the ridge, the more iterations. Lanczos' iterations, or conjugate gradients
that share their directions between ridges, need fewer products but take no preconditioner, and
small ridges would need many times the passes over the matrix, which cost most on a disk.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax import arrays, backend
from lsa_jax.checks import integer, is_number, optional, require
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices.sharded import PackedMatrix, ShardedRows, by_first, multiply, pick
from lsa_jax.kernels.solve import preconditioner, problem
from lsa_jax.kernels.solve.checkpoint import Checkpoint
from lsa_jax.kernels.solve.preconditioner import Preconditioner

# The parts of the system that a checkpoint belongs to, for messages.
_SYSTEM = "matrix, targets, ridges, rank or probes"

# The residual that is updated drifts away from the true one, by less than this factor.
_DRIFT = 10.0

# Relative standard error of the diagonal, root mean square over examples, up to which its
# contribution to the squares can be taken out.
_LARGEST_ERROR = 0.25

_Progress = Callable[[int, float], None]


class IterativeRegression(NamedTuple):
    """Predictions of kernel ridge regression, and how well its system was solved.

    Attributes:
        predictions: [m, c], float64.
        weights: [n, c] of the training examples; other predictions are mean target + K(x, X) w.
        ridge: ridge over the mean diagonal that was used.
        iterations: passes over the matrix that it took.
        residual: largest |Y - y0 - (K + lambda I) weights| over |Y - y0| of a target.
    """

    predictions: Float[np.ndarray, "m c"]
    weights: Float[np.ndarray, "n c"]
    ridge: float
    iterations: int
    residual: float


class LeaveOneOut(NamedTuple):
    """Estimates of the mean squared error on examples left out, one at a time, for each ridge.

    Standard errors are over the random probes; iterations are passes over the matrix.
    """

    errors: Float[np.ndarray, " r"]
    standard_errors: Float[np.ndarray, " r"]
    iterations: int


@by_first
def regress_cg(
    gram_train: Float[Array | np.ndarray, "n n"] | PackedMatrix,
    targets: Float[Array | np.ndarray, "n c"],
    gram_test: Float[Array | np.ndarray, "m n"] | ShardedRows,
    *,
    ridge: float,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
    rank: int | None = None,
    checkpoint: Path | str | None = None,
    progress: _Progress | None = None,
) -> IterativeRegression:
    """Solves the system of `regress` by preconditioned conjugate gradients.

    It stops once the residual of every target is within the tolerance, and returns no predictions
    of a system that was not solved. With `checkpoint` a call that was killed resumes from a state
    of the last minute, and ends with the same bits on the same kind of machine.

    O(n^2 c) time an iteration; 8 n (rank + 5 c) bytes and one block in addition to the inputs. Of
    matrices that are sharded, all processes make this call: each multiplies its own part, the first
    one decides and keeps the checkpoint, and all get the result.

    Args:
        gram_train: K, symmetric; may be memory-mapped, or packed or sharded as `gram` returns it.
        targets: Y.
        gram_test: K_test, test against training examples; may be memory-mapped or sharded.
        ridge: ridge over the mean diagonal of K, 0 or more.
        tolerance: residual at which to stop, over the size of the target.
        max_iterations: after which to give up.
        rank: of the preconditioner; 0 leaves it out, None chooses by examples and memory, or takes
            that of the checkpoint.
        checkpoint: file that keeps the state of the iterations, a name that ends in .npz.
        progress: called with the iterations that are done and the largest residual, after each.

    Raises:
        InputError: sizes or options are not accepted, or a K that is not symmetric.
        NumericalError: entries that are not finite, a matrix that proves not to be positive
            definite, or a residual above the tolerance after all iterations.

    Source: Gardner et al., GPyTorch, 2018, sections 4 and 5 (preconditioner); `preconditioner`.
    """
    ridge, options = problem.check_ridge(ridge), (tolerance, max_iterations, rank)
    if (recorder := backend.dry_run()) is not None:
        predictions = recorder.solve(gram_train, targets, gram_test)
        return IterativeRegression(predictions, np.zeros(np.shape(targets)), ridge, 0, 0.0)
    return _regress(gram_train, targets, gram_test, [ridge], options, checkpoint, progress)[0]


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
    progress: _Progress | None = None,
) -> list[IterativeRegression]:
    """Solves the system of `regress_cg` for several ridges: as many passes as for the smallest.

    8 n (rank + 5 r c) bytes and one block in addition to the inputs, for r ridges. Arguments, one
    regression a ridge and errors are as in `regress_cg`.
    """
    ridges, options = problem.check_ridges(ridges), (tolerance, max_iterations, rank)
    return _regress(gram_train, targets, gram_test, ridges, options, checkpoint, progress)


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
    progress: _Progress | None = None,
) -> LeaveOneOut:
    """Estimates the errors of `leave_one_out`, for matrices that do not fit memory.

    The error on example i of a fit without it is (G^{-1} Y)_i / (G^{-1})_ii, whose diagonal is
    estimated from random signs: `probes` vectors of them, 2 or more, drawn by the key. The
    jackknife over them removes the bias that the estimate's error adds to squares, and estimates
    the standard error; the larger the rank, the smaller it is.

    8 n (rank + 5 r (c + 1 + probes)) bytes and one block in addition to the inputs, for r ridges,
    each above 0. Other arguments are as in `regress_cg`.

    Raises:
        InputError: as `regress_cg`.
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
    options = tolerance, max_iterations, rank
    solved = _solve(gram_train, right, ridges, options, checkpoint, progress)
    return _left_out(solved, gram_train.diagonal(), centred, signs, ridges)


class _Solved(NamedTuple):
    """Solutions for each ridge, [ridges, n, c], and how they were found."""

    solutions: Float[np.ndarray, "r n c"]
    shifts: Float[np.ndarray, " r"]
    residuals: Float[np.ndarray, "r c"]
    iterations: int
    conditioner: Callable[[], Preconditioner]


def _regress(
    gram_train: Any, targets: Any, gram_test: Any, ridges: Sequence[float], *how: Any
) -> list[IterativeRegression]:
    """Returns one regression a ridge; `how` is passed to `_solve`."""
    gram_train, targets, gram_test = problem.checked(gram_train, targets, gram_test, whole=False)
    mean = targets.mean(axis=0, dtype=float)
    solved = _solve(gram_train, targets - mean, ridges, *how)
    weights = np.concatenate(list(solved.solutions), axis=1)
    products = np.split(multiply(gram_test, weights), len(ridges), axis=1)
    return [
        IterativeRegression(product + mean, own, ridge, solved.iterations, float(left.max()))
        for product, own, ridge, left in zip(
            products, solved.solutions, ridges, solved.residuals, strict=True
        )
    ]


def _solve(
    gram_train: np.ndarray | PackedMatrix,
    right: np.ndarray,
    ridges: Sequence[float],
    options: tuple[float, int, int | None],
    checkpoint: Path | str | None,
    progress: _Progress | None,
) -> _Solved:
    """Solves for all right-hand sides at all ridges, each within the tolerance.

    The options are tolerance, most iterations and rank.
    """
    n, width = right.shape
    tolerance, max_iterations, rank = options
    if not (is_number(tolerance) and 0 < tolerance < 1):
        raise InputError(f"tolerance is {tolerance!r}; accepted: above 0, below 1")
    require("max_iterations", max_iterations, integer(1))
    require("rank", rank, optional(integer(0)))
    shifts = np.asarray(ridges, float) * problem.mean_diagonal(gram_train)
    ends = pick(gram_train, np.array([0, n - 1]))
    # By powers of 2, which change no digit, so that squares of targets neither overflow nor vanish.
    size = np.exp2(np.frexp(np.abs(right).max(axis=0))[1] - 1.0)
    right = right / size
    store = Checkpoint(checkpoint, _SYSTEM, gram_train.diagonal(), ends, right, shifts)
    kept, rank = store.read(), None if rank is None else min(n, rank)
    if kept is not None:  # a rank that was chosen by the free memory stays the same after a kill
        known = int(kept.pop("rank"))
        store.check(rank in (None, known))
        rank = known
    elif rank is None:
        rank = preconditioner.choose_rank(n)
    needed = 8.0 * (2 * n * rank + 6 * n * width * len(ridges) + len(ridges) * rank**2)
    problem.check_memory(n, needed, "fewer ridges at a time, or a lower rank")
    make = functools.cache(lambda: preconditioner.make(gram_train, tuple(shifts), rank))
    solutions, iterations, residuals = _solve_columns(
        functools.partial(multiply, gram_train),
        np.repeat(shifts, width),
        np.tile(right, len(ridges)),
        make,
        (tolerance, max_iterations),
        None if kept is None else _State(**kept),
        lambda state, **now: store.write(state._asdict() | {"rank": rank}, **now),
        progress,
    )
    residuals = residuals.reshape(len(ridges), width)
    if not residuals.max() <= _DRIFT * tolerance:
        worst = ridges[int(residuals.max(axis=1).argmax())]
        if iterations < max_iterations:
            advice = ": rounding allows no less; use a larger ridge or tolerance"
        else:
            advice = "; use a larger ridge, rank or max_iterations"
        raise NumericalError(
            f"conjugate gradients on {n} examples with ridge {worst:g} have a residual of "
            f"{residuals.max():.2g} after {iterations} iterations, above the tolerance "
            f"{tolerance:g}{advice}"
        )
    by_ridge = size * solutions.reshape(n, len(ridges), width).transpose(1, 0, 2)
    return _Solved(by_ridge, shifts, residuals, iterations, make)


def _left_out(
    solved: _Solved,
    diagonal: np.ndarray,
    centred: np.ndarray,
    signs: np.ndarray,
    ridges: Sequence[float],
) -> LeaveOneOut:
    """Returns the estimates, from solutions for targets, ones and signs.

    The diagonal is that of the preconditioner, which is known, plus a correction: the mean of
    z * (G^{-1} z - P^{-1} z) over signs z (Hutchinson's estimate, with the preconditioner as
    control variate). It is clipped to 1 / G_ii and 1 / lambda, which bound the true one. All are
    times lambda, as squares could leave the range of floats.
    """
    n, width = centred.shape
    conditioner = solved.conditioner()
    known = conditioner.diagonals()
    conditioned = np.split(conditioner(np.tile(signs, len(ridges))), len(ridges), axis=1)
    found = []
    for index, shift in enumerate(solved.shifts):
        of_targets, of_ones, of_signs = np.split(
            solved.solutions[index], [width, width + 1], axis=1
        )
        # The mean of the other examples is taken out, as in `leave_one_out`.
        weights = shift * (of_targets + centred / (n - 1) * of_ones)
        corrections = shift * signs * (of_signs - conditioned[index])
        bounds = 1 / (np.asarray(diagonal, float) / shift + 1), 1.0
        start = shift * known[index]
        inverse = np.clip(start + corrections.mean(axis=1), *bounds)
        _check_diagonal(inverse, corrections, ridges[index])
        found.append(_jackknife(np.sum(weights**2, axis=1), start, corrections, bounds))
    errors, standard_errors = np.array(found).T / width
    return LeaveOneOut(errors, standard_errors, solved.iterations)


def _check_diagonal(diagonal: np.ndarray, corrections: np.ndarray, ridge: float) -> None:
    """Raises NumericalError where the estimate of the diagonal is not accurate enough."""
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
    squares: np.ndarray,
    known: np.ndarray,
    corrections: np.ndarray,
    bounds: tuple[np.ndarray, float],
) -> tuple[float, float]:
    """Returns the mean of squares / diagonal^2 and its standard error, from s corrections."""
    count, total = corrections.shape[1], corrections.sum(axis=1)

    def error(correction: np.ndarray) -> float:
        return float(np.mean(squares / np.clip(known + correction, *bounds) ** 2))

    whole = error(total / count)
    others = [error((total - own) / (count - 1)) for own in corrections.T]
    spread = (count - 1) * float(np.var(others))
    return count * whole - (count - 1) * float(np.mean(others)), np.sqrt(spread)


class _State(NamedTuple):
    """The state of conjugate gradients between iterations: [n, c], [c] and a number.

    The residual is as it was updated; `product` is that of residual and conditioned residual.
    """

    solution: np.ndarray
    residual: np.ndarray
    direction: np.ndarray
    product: np.ndarray
    iterations: np.ndarray


def _solve_columns(
    multiply: Callable[[np.ndarray], np.ndarray],
    shifts: Float[np.ndarray, " c"],
    right: Float[np.ndarray, "n c"],
    make_preconditioner: Callable[[], Callable[[np.ndarray], np.ndarray]],
    limits: tuple[float, int],
    state: _State | None,
    keep: Callable[..., None],
    progress: _Progress | None,
) -> tuple[Float[np.ndarray, "n c"], int, Float[np.ndarray, " c"]]:
    """Solves (K + shift I) x = b for every column, so that one pass over K serves all of them.

    From the start, or from a state; `(state, now=False)` keeps one. scipy's function takes one
    right-hand side, and would read the matrix once for each. Returns the solutions, the number of
    iterations, and the true relative residuals.
    """
    (tolerance, max_iterations), scale = limits, np.linalg.norm(right, axis=0)
    scale[scale == 0] = 1.0
    precondition = None
    if state is None:
        precondition = make_preconditioner()
        conditioned = precondition(right)
        product = np.sum(right * conditioned, axis=0)
        state = _State(np.zeros_like(right), right.copy(), conditioned, product, np.array(0))
    while True:
        sizes = np.linalg.norm(state.residual, axis=0) / scale
        active = sizes > tolerance
        if progress is not None:
            progress(int(state.iterations), float(sizes.max()))
        if not active.any() or state.iterations >= max_iterations:
            break
        precondition = precondition or make_preconditioner()
        state = _iterate(state, active, multiply, shifts, precondition)
        keep(state)
    keep(state, now=True)
    left = right - multiply(state.solution) - shifts * state.solution
    return state.solution, int(state.iterations), np.linalg.norm(left, axis=0) / scale


def _iterate(
    state: _State,
    active: np.ndarray,
    multiply: Callable[[np.ndarray], np.ndarray],
    shifts: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
) -> _State:
    """Takes a step in the columns that are active."""
    some, image = state.direction[:, active], np.zeros_like(state.direction)
    image[:, active] = multiply(some) + shifts[active] * some
    curvature = np.sum(state.direction * image, axis=0)
    if (curvature[active] <= 0).any():
        raise NumericalError(
            f"the kernel matrix of {len(image)} examples is not positive definite: conjugate "
            f"gradients met a direction of curvature {curvature[active].min():.2g} in "
            f"iteration {state.iterations + 1}; use a larger ridge, or remove examples that are "
            "equal"
        )
    step = np.where(active, state.product / np.where(active, curvature, 1.0), 0.0)
    residual = state.residual - step * image
    conditioned = precondition(residual)
    product = np.sum(residual * conditioned, axis=0)
    turn = np.where(active, product / np.where(active, state.product, 1.0), 0.0)
    return _State(
        state.solution + step * state.direction,
        residual,
        conditioned + turn * state.direction,
        product,
        state.iterations + 1,
    )
