"""Regression on centres is the Nystrom formula, and with all examples as centres the exact one."""

import jax
import numpy as np
import pytest

from lsa_jax import models
from lsa_jax.errors import InputError
from lsa_jax.kernels import Stream, gram, regress, regress_nystrom
from lsa_jax.kernels.solve import checkpoint


def rbf(x1, x2):
    return jax.numpy.exp(-((x1[:, None] - x2[None]) ** 2).sum(-1) / 2)


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(230, 3)), rng.normal(size=(20, 3))
    targets = np.tanh(x @ rng.normal(size=(3, 4))) + 0.1 * rng.normal(size=(230, 4))
    targets[:, 3] = 2.0  # a class that all examples are of
    return x, targets, test


def _closed_form(x, targets, centres, test, ridge):
    """The normal equations as they stand in the paper, in float64."""
    k = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 2)  # noqa: E731
    wide, own = k(centres, x), k(centres, centres)
    system = wide @ wide.T + ridge * np.trace(own) / len(own) * own
    mean = targets.mean(0)
    return mean + k(test, centres) @ np.linalg.solve(system, wide @ (targets - mean))


@pytest.mark.parametrize("size", [64, 230])
def test_predictions_are_the_nystrom_formula(given, size):
    x, targets, test = given
    stream, done = Stream.of(x, targets, size), []
    options = {"ridge": 1e-3, "dtype": "float64"}
    fit = regress_nystrom(rbf, x[:25], stream, test, **options, progress=done.append)
    np.testing.assert_allclose(done, np.arange(1, stream.count + 1) / stream.count)
    expected = _closed_form(x, targets, x[:25], test, 1e-3)
    np.testing.assert_allclose(fit.predictions, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(fit.predictions[:, 3], 2.0, rtol=1e-12)
    assert (fit.num_examples, fit.rank) == (230, 25)
    own = regress_nystrom(rbf, x[:25], stream, x, **options).predictions
    np.testing.assert_allclose(fit.train_error, np.mean((own - targets) ** 2), rtol=1e-8)
    rest = gram(rbf, test, x[:25], dtype="float64") @ fit.weights + fit.mean
    np.testing.assert_allclose(rest, fit.predictions, rtol=1e-9, atol=1e-9)
    # Targets of any size are fitted alike, and equal centres count once.
    large = regress_nystrom(rbf, x[:25], Stream.of(x, 1e9 * targets, size), test, **options)
    np.testing.assert_allclose(large.predictions / 1e9, fit.predictions, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(large.train_error / 1e18, fit.train_error, rtol=1e-6)
    twice = regress_nystrom(rbf, np.tile(x[:25], (2, 1)), stream, test, **options)
    assert twice.rank == 25
    np.testing.assert_allclose(twice.predictions, fit.predictions, atol=1e-7)


def test_all_examples_as_centres_are_the_exact_regression_of_a_convolutional_network():
    rng = np.random.default_rng(1)
    x, test = (rng.normal(size=(n, 6, 6, 1)).astype(np.float32) for n in (60, 9))
    targets = rng.normal(size=(60, 3))
    layers = [models.Conv(4), models.Relu(), models.Flatten(), models.Dense(3)]
    kernel = models.network(layers).kernel
    fit = regress_nystrom(kernel, x, Stream.of(x, targets, 16), test, ridge=0.01)
    exact = regress(gram(kernel, x), targets, gram(kernel, test, x), ridge=0.01)
    np.testing.assert_allclose(fit.predictions, exact.predictions, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(fit.condition, exact.condition, rtol=3)


def test_a_killed_call_resumes_with_the_same_bits_and_serves_other_ridges(
    given, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "_SAVE_EVERY", -1.0)
    x, targets, test = given
    read, path = [], tmp_path / "sums.npz"

    def batch(number):
        read.append(number)
        if read == [0, 1, 2, 3]:
            raise KeyboardInterrupt
        rows = slice(40 * number, 40 * number + 40)
        return x[rows], targets[rows]

    def fit(stream, kernel=rbf, **options):
        return regress_nystrom(kernel, x[:30], stream, test, **options)

    whole = fit(Stream.of(x, targets, 40), ridge=1e-3)
    with pytest.raises(KeyboardInterrupt):
        fit(Stream(batch, 6), ridge=1e-3, checkpoint=path)
    again = fit(Stream(batch, 6), ridge=1e-3, checkpoint=path)
    # The first one is checked before work; batches in the sums identify the stream.
    assert read == [0, 1, 2, 3, 0, 0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(again.predictions, whole.predictions)
    other = fit(Stream(batch, 6), ridge=0.1, checkpoint=path)
    assert read[11:] == [0, 0, 1, 2, 3, 4, 5]
    direct = fit(Stream.of(x, targets, 40), ridge=0.1)
    np.testing.assert_array_equal(other.predictions, direct.predictions)
    # Examples that differ anywhere, their number, and another kernel are refused.
    late = x.copy()
    late[200:] += 1
    for inputs, outputs in [(late, targets), (x, targets + 1), (x[:220], targets[:220])]:
        with pytest.raises(InputError, match="of another kernel, centres, examples"):
            fit(Stream.of(inputs, outputs, 40), ridge=1e-3, checkpoint=path)
    with pytest.raises(InputError, match="of another kernel"):
        double = lambda a, b: 2 * rbf(a, b)  # noqa: E731
        fit(Stream(batch, 6), double, ridge=1e-3, checkpoint=path)
