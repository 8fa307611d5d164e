"""Kernel ridge regression by conjugate gradients, for matrices that do not fit memory.

Each iteration reads the matrix once, for all targets together, block by block: matrices may be
memory-mapped from files. The preconditioner is a partial Cholesky factorisation with pivots, of the
kernel's largest directions, plus a multiple of the identity for the others: the more the
eigenvalues spread above the ridge, the more iterations. Or it is the whole factor in float32, in a
file: then a few iterations correct its rounding, however many targets there are.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from lsa_jax import backend
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.packed import PackedMatrix, pick
from lsa_jax.kernels.matrices.shards import Sharded, ShardedRows, by_first
from lsa_jax.kernels.solve import blocks, disk_factor, preconditioner, problem
from lsa_jax.kernels.solve.checkpoint import Checkpoint, recorded

# What a checkpoint is of.
_SYSTEM = "matrix, targets, ridge or rank"

# The residual that is updated drifts away from the true one, by less than this factor.
DRIFT = 10.0


class Limits(NamedTuple):
    """When to stop: the residual over the target that is enough, and after how many iterations."""

    tolerance: float
    iterations: int


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
    factor: Path | str | None = None,
    checkpoint: Path | str | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> IterativeRegression:
    """Solves what `regress` solves by preconditioned conjugate gradients.

    It stops once the residual of every target is within the tolerance, and gives no predictions of
    a system that was not solved. With `checkpoint` a call that was killed goes on from a state of
    the last minute, and ends with the same bits on the same kind of machine.

    O(n^2 c) time an iteration; 8 n (rank + 5 c) bytes and one block beside the inputs. A `factor`
    takes n^3 / 3 operations in float32 before, 2 n^2 bytes of disk and a fifth of the free memory:
    many targets are worth them (`choose_solver`). Of matrices that are sharded, all processes make
    this call: each multiplies its own part, the first one decides and keeps the checkpoint, and all
    get the result.

    Args:
        gram_train: K, symmetric; may be memory-mapped, or packed or sharded as `gram` gives it.
        targets: Y.
        gram_test: K_test, test against training examples; may be memory-mapped or sharded.
        ridge: ridge over the mean diagonal of K, 0 or more.
        tolerance: residual at which to stop, over the size of the target.
        max_iterations: after which to give up.
        rank: of the preconditioner; 0 leaves it out, None chooses by examples and memory, and goes
            on with that of the checkpoint.
        factor: file for a whole Cholesky factor instead, a name that ends in .npy. One that is
            there, of the same matrix and ridge, is used, and one that is not whole gone on with.
        checkpoint: file that keeps the state of the iterations, a name that ends in .npz.
        progress: called with the iterations that are done and the largest residual, after each.

    Raises:
        InputError: sizes or options are not accepted, or a K that is not symmetric.
        NumericalError: entries that are not finite, a matrix that proves not to be positive
            definite (to float32's accuracy, with `factor`), or a residual above the tolerance after
            all iterations.

    Source: Gardner et al., GPyTorch, 2018, sections 4 and 5 (preconditioner); `preconditioner`.
    """
    if (recorder := backend.dry_run()) is not None:
        predictions = recorder.solve(gram_train, targets, gram_test)
        return IterativeRegression(predictions, np.zeros(np.shape(targets)), ridge, 0, 0.0)
    gram_train = problem.matrix("gram_train", gram_train, whole=False)
    gram_test = problem.matrix("gram_test", gram_test, whole=False)
    targets = problem.targets_of(targets)
    ridge = problem.check_ridge(ridge)
    choice = _chosen(gram_train, rank, factor, checkpoint)
    check_options(tolerance, max_iterations, choice.rank)
    n, c = targets.shape
    needed = 8 * (n * 6 * c + len(gram_test) * c) + choice.held
    problem.check_memory(n, needed, "a lower rank")
    problem.check(gram_train, targets, gram_test)
    mean = targets.mean(axis=0, dtype=float)
    limits = Limits(tolerance, max_iterations)
    weights, iterations, residual = _solve(
        gram_train, targets - mean, ridge, choice, limits, checkpoint, progress
    )
    predictions = blocks.multiply(gram_test, weights) + mean
    return IterativeRegression(predictions, weights, ridge, iterations, residual)


class _Preconditioning(NamedTuple):
    """Which preconditioner, and the bytes of memory that it takes.

    Attributes:
        rank: of the factorisation; that of the matrix, where it is a whole one.
        factor: file of a whole one.
        held: bytes.
    """

    rank: int
    factor: Path | None
    held: int

    @property
    def told(self) -> int | str:
        """What tells it from others in a checkpoint."""
        return self.rank if self.factor is None else "factor"

    @property
    def settings(self) -> dict[str, int]:
        """What a call that goes on with it takes from the checkpoint."""
        return {"rank": self.rank} if self.factor is None else {}

    def make(
        self, gram_train: np.ndarray | PackedMatrix, shift: float
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Computes it, for K + shift I."""
        if self.factor is None:
            return preconditioner.make(gram_train, [shift], self.rank)
        return disk_factor.make(gram_train, shift, self.factor)


def find_rank(n: int, rank: int | None, checkpoint: Path | str | None) -> int:
    """Returns the rank that is given, or that of the checkpoint, or one for n examples."""
    rank = recorded(checkpoint, "rank") if rank is None else rank
    return min(n, preconditioner.choose_rank(n) if rank is None else rank)


def _chosen(
    gram_train: np.ndarray | Sharded,
    rank: int | None,
    factor: Path | str | None,
    checkpoint: Path | str | None,
) -> _Preconditioning:
    """Returns the preconditioner that the arguments ask for.

    Raises:
        InputError: they ask for two, or for a factor of a matrix that several processes share.
    """
    n = len(gram_train)
    if factor is None:
        rank = find_rank(n, rank, checkpoint)
        return _Preconditioning(rank, None, 16 * n * rank)
    if rank is not None:
        raise InputError(f"rank is {rank} and factor is {factor}; accepted: one of them")
    if isinstance(gram_train, Sharded) and gram_train.group.size > 1:
        raise InputError(
            f"factor is {factor} and {gram_train.group.size} processes share the matrix; accepted: "
            "None, or a matrix of one process"
        )
    rows = disk_factor.choose_rows(n, memory.host_available())
    held = disk_factor.Panels(n, rows).held
    return _Preconditioning(n, Path(factor), held)


def _solve(
    gram_train: np.ndarray | PackedMatrix,
    targets: np.ndarray,
    ridge: float,
    choice: _Preconditioning,
    limits: Limits,
    checkpoint: Path | str | None,
    progress: Callable[[int, float], None] | None,
) -> tuple[np.ndarray, int, float]:
    """Returns weights, iterations and the residual, which is within the tolerance."""
    shift = ridge * blocks.mean_diagonal(gram_train)
    ends = pick(gram_train, np.array([0, len(gram_train) - 1]))
    system = gram_train.diagonal(), ends, targets, ridge, choice.told
    weights, iterations, residuals = solve_columns(
        functools.partial(blocks.multiply, gram_train),
        np.full(targets.shape[1], shift),
        targets,
        lambda: choice.make(gram_train, shift),
        limits,
        Checkpoint(checkpoint, _SYSTEM, *system, settings=choice.settings),
        progress,
    )
    residual = float(residuals.max())
    if residual > DRIFT * limits.tolerance:
        system = f"{len(gram_train)} examples with ridge {ridge:g}"
        raise unsolved(system, residual, iterations, limits)
    return weights, iterations, residual


def unsolved(system: str, residual: float, iterations: int, limits: Limits) -> NumericalError:
    """Says of a system that it is not solved, and what may help."""
    if iterations < limits.iterations:
        advice = ": rounding allows no less; use a larger ridge or tolerance"
    else:
        advice = "; use a larger ridge, rank or max_iterations"
    return NumericalError(
        f"conjugate gradients on {system} have a residual of {residual:.2g} after {iterations} "
        f"iterations, above the tolerance {limits.tolerance:g}{advice}"
    )


def check_options(tolerance: float, max_iterations: int, rank: int) -> None:
    """Raises InputError where an option of the iterations is not accepted."""
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance is {tolerance!r}; accepted: above 0, below 1")
    if not max_iterations >= 1:
        raise InputError(f"max_iterations is {max_iterations!r}; accepted: 1 or more")
    if not rank >= 0:
        raise InputError(f"rank is {rank!r}; accepted: 0 or more")


class _State(NamedTuple):
    """What conjugate gradients carry from one iteration to the next, [n, c] but for the last two.

    Attributes:
        solution: so far.
        residual: right-hand sides less the product with it, as it was updated.
        direction: of the next step.
        product: of residual and conditioned residual, [c].
        iterations: done.
    """

    solution: np.ndarray
    residual: np.ndarray
    direction: np.ndarray
    product: np.ndarray
    iterations: np.ndarray


def solve_columns(
    multiply: Callable[[np.ndarray], np.ndarray],
    shifts: Float[np.ndarray, " c"],
    right: Float[np.ndarray, "n c"],
    make_preconditioner: Callable[[], Callable[[np.ndarray], np.ndarray]],
    limits: Limits,
    checkpoint: Checkpoint,
    progress: Callable[[int, float], None] | None,
) -> tuple[Float[np.ndarray, "n c"], int, Float[np.ndarray, " c"]]:
    """Solves (K + shift I) x = b for every column, so that one pass over K serves all of them.

    scipy's takes one right-hand side, and would read the matrix anew for each.

    Args:
        multiply: by K, some columns.
        shifts: of each column.
        right: b of each column.
        make_preconditioner: called once it is needed.
        limits: when to stop.
        checkpoint: keeps the state.
        progress: as in `regress_cg`.

    Returns:
        The solutions, the number of iterations, and the true relative residuals.

    Raises:
        NumericalError: K + shift I is not positive definite.
    """
    scale = np.linalg.norm(right, axis=0)
    scale[scale == 0] = 1.0
    precondition = None
    kept = checkpoint.read()
    if kept is not None:
        state = _State(**kept)
    else:
        precondition = make_preconditioner()
        conditioned = precondition(right)
        product = np.sum(right * conditioned, axis=0)
        state = _State(np.zeros_like(right), right.copy(), conditioned, product, np.array(0))
    while True:
        sizes = np.linalg.norm(state.residual, axis=0) / scale
        active = sizes > limits.tolerance
        if progress is not None:
            progress(int(state.iterations), float(sizes.max()))
        if not active.any() or state.iterations >= limits.iterations:
            break
        precondition = precondition or make_preconditioner()
        state = _iterate(state, active, multiply, shifts, precondition)
        checkpoint.write(state._asdict())
    checkpoint.write(state._asdict(), now=True)
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
