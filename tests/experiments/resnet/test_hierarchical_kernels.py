"""Kernels and read-outs of hierarchical targets, beside least squares in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.resnet.hierarchical import kernels, settings, signals, tasks
from lsa_jax.experiments.resnet.shallow import last_features
from lsa_jax.sweep.variants import set_fields

TINY = {"d": 8, "num_train": 6, "num_test": 30, "num_exact_test": 20, "width": 60}


def configure(**fields):
    return set_fields(settings.default_config(), TINY | fields)


def interpolated(features, targets, features_test):
    """Returns what least squares of the least norm predicts, of what differs from the mean."""
    mean = targets.mean(axis=0)
    weights = np.linalg.lstsq(features, targets - mean, rcond=None)[0]
    return mean + features_test @ weights


def best_of(config):
    """Returns an exact kernel's outcome, and that every ridge has a row."""
    outcome = kernels.run_exact(config)
    assert [row["ridge"] for row in outcome.history] == list(config.ridges)
    assert outcome.metrics["test_error"] == min(row["test_error"] for row in outcome.history)
    return outcome


def test_the_exact_finite_kernel_is_least_squares_on_derivatives():
    """From the initial outputs, which it adds what it learns to; a large ridge learns nothing."""
    config = configure(net="2layer", learner="ntk_exact", ridges=(1e-6, 1e6), width=20)
    task, apply = tasks.make_task(config), tasks.make_network(config).apply
    initial = tasks.initial_params(config)

    jacobian = jax.jit(jax.jacobian(lambda p, x: apply(p, x).reshape(-1)))

    def derivatives(x):
        leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(jacobian(initial, x))]
        return np.concatenate([leaf.reshape(4 * len(x), -1) for leaf in leaves], axis=1)

    (x, y), (x_test, y_test) = task.train, [part[:20] for part in task.test]
    left, left_test = (
        np.asarray(b - apply(initial, a), float) for a, b in ((x, y), (x_test, y_test))
    )
    found = interpolated(derivatives(x), left.reshape(-1, 1), derivatives(x_test))
    errors = [
        np.mean(np.sum((f - left_test) ** 2, axis=1)) for f in (found.reshape(20, 4), left.mean())
    ]
    rows = best_of(config).history
    np.testing.assert_allclose([row["test_error"] for row in rows], errors, rtol=0.01)


def test_the_exact_last_layer_is_least_squares_on_features():
    config = configure(net="3layer", learner="last_exact", ridges=(1e-6,))
    task, initial = tasks.make_task(config), tasks.initial_params(config)
    features, test = (
        np.asarray(last_features("3layer", initial, data.inputs), float)
        for data in (task.train, task.test)
    )
    found = interpolated(features, np.asarray(task.train.targets, float), test)
    error = np.mean(np.sum((found - np.asarray(task.test.targets)) ** 2, axis=1))
    assert best_of(config).metrics["test_error"] == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize("learner", ["gaussian", "arc_cosine", "ntk_infinite"])
def test_kernels_without_a_ridge_go_through_their_examples(learner):
    """Without test examples of its own a kernel errs nowhere, and bandwidths are all tried."""
    config = configure(net="2layer", learner=learner, ridges=(1e-6,), bandwidths=(0.5, 1.0))
    of = [(bandwidth, kernel) for bandwidth, kernel in kernels._kernels(config)]
    assert [bandwidth for bandwidth, _ in of] == ([0.5, 1.0] if learner == "gaussian" else [None])
    x, y = (np.asarray(part) for part in tasks.make_task(config).train)
    for _, kernel in of:
        gram = np.asarray(kernel(jnp.asarray(x), jnp.asarray(x)))
        (row,) = kernels._fit(None, gram, y, gram, y, (1e-6,))
        assert row["test_error"] < 1e-4
        (row,) = kernels._fit(None, gram, y, 0 * gram, y, (1e-6,))
        assert row["test_error"] == pytest.approx(np.sum(y.var(axis=0)), rel=1e-4)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_read_out_is_least_squares_with_a_constant_whatever_the_features_scale(key, scale):
    """Also where features are linearly dependent, as the third is on the first."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 2)) * scale
    features = np.concatenate([features, 2 * features[:, :1]], axis=1)
    signal = 3 + features[:, :2] @ np.array([[1.0, 0.5], [0.2, -1.0]]) / scale
    signal += rng.normal(size=signal.shape)
    with_constant = np.concatenate([features, np.ones((400, 1))], axis=1)
    weights = np.linalg.lstsq(with_constant[:300], signal[:300], rcond=None)[0]
    found = with_constant[300:] @ weights
    expected = np.sum((found - signal[300:]) ** 2) / np.sum(signal[300:] ** 2)
    parts = (features[:300], signal[:300], features[300:], signal[300:])
    error = signals.readout_error(*(jnp.asarray(part, jnp.float32) for part in parts))
    assert float(error) == pytest.approx(expected, rel=1e-3)


def test_what_is_missed_is_weighted_by_the_signals_mean_squares():
    """Half of a signal of mean square 1 and all of one of 9: (1/4 + 9) / 10."""
    signs = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    signal = jnp.asarray(signs * [1.0, 3.0])
    outputs = jnp.asarray(signs * [0.5, 0.0])
    assert float(signals.share_missed(outputs, signal)) == pytest.approx((0.25 + 9) / 10)
