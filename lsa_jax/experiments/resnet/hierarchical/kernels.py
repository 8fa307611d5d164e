"""Kernels solved exactly: networks' at finite and infinite width, and inputs' alone.

Ridge and bandwidth have the least test error, as the paper chooses every setting.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array, Float

from lsa_jax import kernels
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import NumericalError
from lsa_jax.experiments.resnet.hierarchical import tasks
from lsa_jax.experiments.resnet.shallow import last_features, relu_duals
from lsa_jax.reporting import outcomes
from lsa_jax.sweep.experiment import Outcome, with_test

# Examples whose rows of a full kernel are computed at a time.
_ROWS = 50

# A fit's row of the history, and the squared errors of its predictions.
Fit = tuple[dict[str, Any], np.ndarray]


def gaussian_kernel(bandwidth: float) -> Callable[[Array, Array], Array]:
    """Returns exp(-|x - x'|^2 / (2 bandwidth^2 d)) of every pair."""

    def kernel(x1: Float[Array, "n1 d"], x2: Float[Array, "n2 d"]) -> Float[Array, "n1 n2"]:
        squares = jnp.sum(x1**2, axis=1)[:, None] - 2 * x1 @ x2.T + jnp.sum(x2**2, axis=1)[None]
        return jnp.exp(-squares / (2 * bandwidth**2 * x1.shape[1]))

    return kernel


def arc_cosine_kernel(x1: Float[Array, "n1 d"], x2: Float[Array, "n2 d"]) -> Float[Array, "n1 n2"]:
    """Returns E[s(<w, x>) s(<w, x'>)] over Gaussian w, s the ReLU.

    Source: Cho and Saul (2009), order 1.
    """
    variances = (jnp.sum(x**2, axis=1) for x in (x1, x2))
    return relu_duals(x1 @ x2.T, *variances)[0]


def _kernels(config: ml_collections.ConfigDict) -> Iterator[tuple[float | None, Callable]]:
    """Yields the kernels [n1, n2] of a learner, one a bandwidth where it has one."""
    if config.learner == "gaussian":
        for bandwidth in config.bandwidths:
            yield bandwidth, gaussian_kernel(bandwidth)
    elif config.learner == "arc_cosine":
        yield None, arc_cosine_kernel
    elif config.learner == "last_exact":  # of features, which are computed once
        yield None, lambda features1, features2: features1 @ features2.T
    else:
        network = tasks.make_network(config)
        yield None, network.kernel if config.learner == "ntk_infinite" else network.nngp


def full_ntk(
    apply: Callable, params: Any, x1: Float[Array, "n1 d"], x2: Float[Array, "n2 d"]
) -> Float[np.ndarray, "n1_k n2_k"]:
    """Returns the finite NTK of all pairs of outputs; an example's are neighbours."""

    @jax.jit
    def rows(part: Array) -> Array:
        ntk = kernels.empirical_ntk(apply, params, part, x2, full=True)
        return ntk.transpose(0, 2, 1, 3).reshape(ntk.shape[0] * ntk.shape[2], -1)

    parts = [x1[first : first + _ROWS] for first in range(0, len(x1), _ROWS)]
    return np.concatenate([np.asarray(rows(part)) for part in parts])


def _solve(
    gram: np.ndarray,
    targets: np.ndarray,
    gram_test: np.ndarray,
    expected: np.ndarray,
    config: ml_collections.ConfigDict,
    bandwidth: float | None = None,
) -> list[Fit]:
    """Solves with every ridge; the error is infinite where a solve fails."""
    fits = []
    for ridge in config.ridges:
        try:
            fit = kernels.regress(gram, targets, gram_test, ridge=ridge)
            squares = (fit.predictions - expected) ** 2
        except NumericalError:  # too small a ridge for this kernel; a larger one is in the list
            squares = np.full(expected.shape, np.inf)
        error = float(np.sum(squares) / len(expected))
        fits.append(({"ridge": ridge, "bandwidth": bandwidth, "test_error": error}, squares))
    return fits


def _fit(config: ml_collections.ConfigDict, task: tasks.HierarchicalTask) -> list[Fit]:
    """Solves with every kernel of a learner."""
    train, test = task.train.inputs, task.test.inputs
    targets, expected = np.asarray(task.train.targets), np.asarray(task.test.targets)
    if config.learner == "last_exact":
        initial = tasks.initial_params(config)
        train, test = (last_features(config.net, initial, x) for x in (train, test))
    fits = []
    for bandwidth, kernel in _kernels(config):
        gram, gram_test = kernels.gram(kernel, train), kernels.gram(kernel, test, train)
        fits += _solve(gram, targets, gram_test, expected, config, bandwidth)
    return fits


def _fit_full(config: ml_collections.ConfigDict, task: tasks.HierarchicalTask) -> list[Fit]:
    """Solves the linearised network: the full kernel, on targets minus initial outputs."""
    apply, initial = tasks.make_network(config).apply, tasks.initial_params(config)
    (x, y), (x_test, y_test) = task.train, task.test
    left, left_test = (
        np.asarray((b - apply(initial, a)).reshape(-1, 1)) for a, b in ((x, y), (x_test, y_test))
    )
    gram, gram_test = full_ntk(apply, initial, x, x), full_ntk(apply, initial, x_test, x)
    # Rounding leaves a kernel computed in parts not quite symmetric.
    fits = _solve((gram + gram.T) / 2, left, gram_test, left_test, config)
    # A row is one output here; errors are sums over an example's outputs.
    return [
        (row | {"test_error": row["test_error"] * y.shape[1]}, squares.reshape(y_test.shape))
        for row, squares in fits
    ]


def run_exact(config: ml_collections.ConfigDict) -> Outcome:
    """Fits a kernel by regression and returns its least test error."""
    task = tasks.make_task(config)
    if config.learner == "ntk_exact":
        few = Dataset(*(values[: config.num_exact_test] for values in task.test))
        task = task._replace(test=few)
        fits = _fit_full(config, task)
    else:
        fits = _fit(config, task)
    rows = [row for row, _ in fits]
    best, squares = min(fits, key=lambda fit: fit[0]["test_error"])
    if not math.isfinite(best["test_error"]):
        message = "the kernel matrix is not positive definite with any of config.ridges"
        return Outcome({}, rows, "failed", f"{message}; add a larger one")
    kept = outcomes.of_errors(squares.sum(axis=1), np.asarray(task.test.targets))
    metrics = {name: value for name, value in best.items() if value is not None}
    (outcome,) = with_test([Outcome(metrics, rows, outcomes=kept)], task.test)
    return outcome
