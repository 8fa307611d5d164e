"""Solvers of one kernel's ridge regression: scipy's Cholesky, CoLA's and GPJax's, and ours.

All get the same float32 matrix of an infinite-width NTK, in memory, and return predictions for ten
targets. Examples lie near a surface of few dimensions, as images do, so that the eigenvalues fall.
"""

import functools
import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from benchmarks.measure import Contest, Skipped
from benchmarks.works import SOLVER_PEERS
from lsa_jax import kernels, models

_SEED, _DIMENSIONS, _TARGETS, _TEST = 0, 8, 10, 1000
_RIDGE, _TOLERANCE = 1e-3, 1e-8

# Added to the diagonal by GPJax itself.
_JITTER = 1e-6


class _Problem(NamedTuple):
    """A ridge regression of float32 kernels, with targets of mean 0."""

    train: Float[np.ndarray, "n n"]
    targets: Float[np.ndarray, "n c"]
    test: Float[np.ndarray, "m n"]
    shift: float  # the ridge in absolute terms, added to the diagonal


def contests(*, quick: bool) -> Iterator[Contest | Skipped]:
    """Yields contests at two sizes, or the reasons for their absence; at a tiny one if `quick`."""
    for n in (60,) if quick else (2_000, 20_000):
        problem = functools.cache(functools.partial(_problem, n))
        for work, (ours, peer) in SOLVER_PEERS.items():
            module, reason = _imported(peer)
            if reason:
                yield Skipped(f"{work}, {n} examples", reason)
            else:
                size = f"{n} examples, {_TARGETS} targets"
                run = lambda ours=ours, problem=problem: _OURS[ours](problem())  # noqa: E731
                yield Contest(work, size, 1, run, peer, _PEERS[peer](module, problem))


def _imported(peer: str) -> tuple[ModuleType | None, str]:
    """Returns a peer's package, if it is one, and why it cannot be run; "" where it can."""
    if peer not in _PACKAGES:
        return None, ""
    if peer == "CoLA" and jax.local_device_count() > 1:
        flag = "--xla_force_host_platform_device_count=1"
        return None, f"CoLA takes no process of several devices; set XLA_FLAGS={flag}"
    try:
        return importlib.import_module(_PACKAGES[peer]), ""
    except Exception as error:  # another library may raise anything on this JAX
        return None, f"{peer} cannot be imported: {error}"


def _problem(n: int) -> _Problem:
    rng = np.random.default_rng(_SEED)
    hidden = rng.standard_normal((n + min(n, _TEST), _DIMENSIONS))
    x = np.tanh(hidden @ rng.standard_normal((_DIMENSIONS, 64))).astype(np.float32)
    kernel = models.mlp(widths=(512, 512)).kernel
    train, test = kernels.gram(kernel, x[:n]), kernels.gram(kernel, x[n:], x[:n])
    targets = np.tanh(hidden[:n] @ rng.standard_normal((_DIMENSIONS, _TARGETS)))
    targets += 0.3 * rng.standard_normal(targets.shape)
    shift = _RIDGE * float(np.mean(train.diagonal(), dtype=float))
    return _Problem(train, targets - targets.mean(axis=0), test, shift)


def _regress(problem: _Problem) -> np.ndarray:
    arrays = problem.train, problem.targets, problem.test
    return kernels.regress(*arrays, ridge=_RIDGE).predictions


def _regress_cg(problem: _Problem) -> np.ndarray:
    arrays = problem.train, problem.targets, problem.test
    return kernels.regress_cg(*arrays, ridge=_RIDGE, tolerance=_TOLERANCE).predictions


_OURS: dict[str, Callable[[_Problem], np.ndarray]] = {
    "regress": _regress,
    "regress_cg": _regress_cg,
}


def _scipy(module: None, known: Callable[[], _Problem]) -> dict[str, Callable]:
    """Returns a factorisation as one would write it: in the memory of the only copy."""
    del module

    def run() -> np.ndarray:
        problem = known()
        matrix = np.array(problem.train, dtype=float, order="F")
        matrix[np.diag_indices_from(matrix)] += problem.shift
        factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        weights = scipy.linalg.cho_solve(factor, problem.targets, check_finite=False)
        return problem.test.astype(float) @ weights

    return {"cho_factor": run}


def _cola(module: ModuleType, known: Callable[[], _Problem]) -> dict[str, Callable]:
    """Returns both ways of solving that CoLA has for positive definite matrices, in float64."""
    from cola.linalg import CG, Cholesky, inv

    def run(algorithm: object) -> np.ndarray:
        problem = known()
        with jax.enable_x64(True):
            matrix = jnp.asarray(problem.train, float)
            matrix += problem.shift * jnp.eye(len(matrix))
            operator = module.PSD(module.ops.Dense(matrix))
            weights = inv(operator, algorithm) @ jnp.asarray(problem.targets)
            return np.asarray(jnp.asarray(problem.test, float) @ weights)

    iterations = CG(tol=_TOLERANCE, max_iters=1000)
    return {"CG": functools.partial(run, iterations), "Cholesky": lambda: run(Cholesky())}


def _gpjax(module: ModuleType, known: Callable[[], _Problem]) -> dict[str, Callable]:
    """Returns a Gaussian process conditioned on the first target; its factor serves the others."""

    class Known(module.kernels.AbstractKernel):
        """A kernel whose matrix is known; of inputs it takes no notice."""

        matrix: Array

        def __init__(self, matrix: Array) -> None:
            super().__init__()
            self.matrix = matrix

        def __call__(self, x: Array, y: Array) -> Array:
            # The base class demands it; both ways to a whole matrix are below.
            raise NotImplementedError("single pairs of a kernel that is known as a matrix")

        def cross_covariance(self, x: Array, y: Array) -> Array:
            return self.matrix

        def gram(self, x: Array) -> object:
            from lineax import MatrixLinearOperator

            return MatrixLinearOperator(self.matrix)

    def run() -> np.ndarray:
        problem = known()
        with jax.enable_x64(True):
            kernel = Known(jnp.asarray(problem.train, float))
            zero = module.mean_functions.Zero()
            prior = module.gps.Prior(mean_function=zero, kernel=kernel, jitter=_JITTER)
            noise = jnp.sqrt(problem.shift - _JITTER)
            model = prior * module.likelihoods.Gaussian(obs_stddev=noise)
            targets = jnp.asarray(problem.targets)
            number = jnp.arange(len(targets), dtype=float)[:, None]
            found = model.condition(module.Dataset(X=number, y=targets[:, :1]))
            weights = jax.scipy.linalg.cho_solve((found.cholesky_factor, True), targets)
            return np.asarray(jnp.asarray(problem.test, float) @ weights)

    return {"condition": run}


_PACKAGES = {"CoLA": "cola", "GPJax": "gpjax"}
_PEERS: dict[str, Callable] = {
    "scipy in float64": _scipy,
    "CoLA": _cola,
    "GPJax": _gpjax,
}
