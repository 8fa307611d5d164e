"""Kernels solved exactly: networks' at finite and infinite width, and inputs' alone.

Ridge and bandwidth have the least test error, as the paper chooses every setting.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsa_jax import kernels
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import NumericalError
from lsa_jax.experiments.resnet.hierarchical import tasks
from lsa_jax.experiments.resnet.shallow import last_features, relu_duals
from lsa_jax.reporting import outcomes
from lsa_jax.sweep.experiment import Config, Outcome, with_test

# Examples whose rows of a full kernel are computed at a time.
_ROWS = 50


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


def _grams(
    config: Config, task: tasks.HierarchicalTask
) -> Iterator[tuple[float | None, np.ndarray, np.ndarray]]:
    """Yields bandwidth and matrices of a learner's kernels, of training and of test examples."""
    train, test = task.train.inputs, task.test.inputs
    if config.learner == "ntk_exact":
        apply, initial = tasks.make_network(config).apply, tasks.initial_params(config)
        gram, gram_test = (full_ntk(apply, initial, rows, train) for rows in (train, test))
        # Rounding leaves a kernel computed in parts not quite symmetric.
        yield None, (gram + gram.T) / 2, gram_test
        return
    kernel_of: dict[float | None, Callable] = {}  # by bandwidth, where there is one
    if config.learner == "gaussian":
        kernel_of = {bandwidth: gaussian_kernel(bandwidth) for bandwidth in config.bandwidths}
    elif config.learner == "arc_cosine":
        kernel_of[None] = arc_cosine_kernel
    elif config.learner == "last_exact":  # of features, which are computed once
        initial = tasks.initial_params(config)
        train, test = (last_features(config.net, initial, x) for x in (train, test))
        kernel_of[None] = lambda features1, features2: features1 @ features2.T
    else:
        network = tasks.make_network(config)
        kernel_of[None] = network.kernel if config.learner == "ntk_infinite" else network.nngp
    for bandwidth, kernel in kernel_of.items():
        yield bandwidth, kernels.gram(kernel, train), kernels.gram(kernel, test, train)


def run_exact(config: Config) -> Outcome:
    """Fits a kernel by regression with every bandwidth and ridge; the least test error counts.

    The full kernel solves the linearised network, on targets minus initial outputs; one of its rows
    is one output of an example.
    """
    task = tasks.make_task(config)
    if config.learner == "ntk_exact":
        few = Dataset(*(values[: config.num_exact_test] for values in task.test))
        task = task._replace(test=few)
        apply, initial = tasks.make_network(config).apply, tasks.initial_params(config)
        targets, expected = (
            np.asarray((y - apply(initial, x)).reshape(-1, 1)) for x, y in (task.train, task.test)
        )
    else:
        targets, expected = np.asarray(task.train.targets), np.asarray(task.test.targets)
    rows, errors, count = [], [], len(task.test.inputs)
    for bandwidth, gram, gram_test in _grams(config, task):
        for ridge in config.ridges:
            try:
                predictions = kernels.regress(gram, targets, gram_test, ridge=ridge).predictions
                squares = (predictions - expected) ** 2
            except NumericalError:  # too small a ridge for this kernel; a larger one is in the list
                squares = np.full(expected.shape, np.inf)
            # A mean over rows; errors are sums over an example's outputs.
            error = float(np.sum(squares) / len(expected)) * (len(expected) // count)
            rows.append({"ridge": ridge, "bandwidth": bandwidth, "test_error": error})
            errors.append(squares.reshape(count, -1).sum(axis=1))
    place = int(np.argmin([row["test_error"] for row in rows]))
    if not math.isfinite(rows[place]["test_error"]):
        message = "the kernel matrix is not positive definite with any of config.ridges"
        return Outcome({}, rows, "failed", f"{message}; add a larger one")
    kept = outcomes.of_errors(errors[place], np.asarray(task.test.targets))
    metrics = {name: value for name, value in rows[place].items() if value is not None}
    (outcome,) = with_test([Outcome(metrics, rows, outcomes=kept)], task.test)
    return outcome
