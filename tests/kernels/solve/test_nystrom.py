"""Regression on centres is the Nystrom formula, and with all examples as centres the exact one."""

import jax
import numpy as np
import pytest

from lsa_jax import models
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import Stream, gram, regress, regress_nystrom
from lsa_jax.kernels.matrices import memory
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
    fit = regress_nystrom(
        rbf, x[:25], stream, test, ridge=1e-3, dtype="float64", progress=done.append
    )
    np.testing.assert_allclose(done, np.arange(1, stream.count + 1) / stream.count)
    expected = _closed_form(x, targets, x[:25], test, 1e-3)
    np.testing.assert_allclose(fit.predictions, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(fit.predictions[:, 3], 2.0, rtol=1e-12)
    assert (fit.num_examples, fit.rank) == (230, 25)
    own = regress_nystrom(rbf, x[:25], stream, x, ridge=1e-3, dtype="float64").predictions
    np.testing.assert_allclose(fit.train_error, np.mean((own - targets) ** 2), rtol=1e-8)
    rest = gram(rbf, test, x[:25], dtype="float64") @ fit.weights + fit.mean
    np.testing.assert_allclose(rest, fit.predictions, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_targets_of_any_size_are_fitted_alike(given, scale):
    x, targets, test = given
    of = [
        regress_nystrom(rbf, x[:25], Stream.of(x, y, 64), test, ridge=1e-3, dtype="float64")
        for y in (targets, scale * targets)
    ]
    np.testing.assert_allclose(of[1].predictions / scale, of[0].predictions, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(of[1].train_error / scale**2, of[0].train_error, rtol=1e-6)


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


def test_a_call_that_was_killed_goes_on_with_the_same_bits_and_serves_other_ridges(
    given, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "_SAVE_EVERY", -1.0)
    x, targets, test = given
    asked, path = [], tmp_path / "sums.npz"

    def batch(number):
        asked.append(number)
        if asked == [0, 1, 2, 3]:
            raise KeyboardInterrupt
        rows = slice(40 * number, 40 * number + 40)
        return x[rows], targets[rows]

    def fit(stream, **options):
        return regress_nystrom(rbf, x[:30], stream, test, **options)

    whole = fit(Stream.of(x, targets, 40), ridge=1e-3)
    with pytest.raises(KeyboardInterrupt):
        fit(Stream(batch, 6), ridge=1e-3, checkpoint=path)
    again = fit(Stream(batch, 6), ridge=1e-3, checkpoint=path)
    # The first one is looked at before work; those in the sums tell which stream it is.
    assert asked == [0, 1, 2, 3, 0, 0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(again.predictions, whole.predictions)
    other = fit(Stream(batch, 6), ridge=0.1, checkpoint=path)
    assert asked[11:] == [0, 0, 1, 2, 3, 4, 5]
    direct = fit(Stream.of(x, targets, 40), ridge=0.1)
    np.testing.assert_array_equal(other.predictions, direct.predictions)
    with pytest.raises(InputError, match="of another kernel, centres, examples or dtype"):
        fit(Stream.of(x, targets + 1, 40), ridge=1e-3, checkpoint=path)
    with pytest.raises(InputError, match="of another kernel"):
        regress_nystrom(
            lambda a, b: 2 * rbf(a, b),
            x[:30],
            Stream(batch, 6),
            test,
            ridge=1e-3,
            checkpoint=path,
        )


def test_a_checkpoint_of_other_examples_is_refused_wherever_they_differ(given, tmp_path):
    x, targets, test = given
    changed = x.copy(), targets.copy()
    for array in changed:
        array[200:] += 1
    early = x.copy()
    early[50] += 1  # of a batch with others before and after it

    def fit(x, targets, path=tmp_path / "sums.npz"):
        stream = Stream.of(x, targets, 40)
        return regress_nystrom(rbf, x[:30], stream, test, ridge=1e-3, checkpoint=path)

    first = fit(x, targets)
    fewer, type_alone = (x[:220], targets[:220]), (x, targets.astype(np.float32))
    moved = [(changed[0], targets), (x, changed[1]), (early, targets)]
    for other in (fewer, *moved, type_alone):
        with pytest.raises(InputError, match="of another kernel, centres, examples or dtype"):
            fit(*other)
    np.testing.assert_array_equal(fit(x, targets).predictions, first.predictions)


def test_what_is_kept_does_not_grow_with_the_examples(given, tmp_path):
    x, targets, test = given
    rng = np.random.default_rng(2)
    held = []

    def batch(number):
        held.append(number)
        own = np.random.default_rng(number)  # drawn anew, never kept
        return own.normal(size=(50, 3)), own.normal(size=(50, 2))

    sizes = []
    for count in (2, 40):
        path = tmp_path / f"{count}.npz"
        fit = regress_nystrom(
            rbf, rng.normal(size=(20, 3)), Stream(batch, count), test, ridge=1e-2, checkpoint=path
        )
        assert fit.num_examples == 50 * count
        sizes.append(path.stat().st_size)
    assert sizes[0] == sizes[1] < 20_000
    assert held == [*range(2), *range(40)]


def test_centres_that_are_equal_count_once(given):
    x, targets, test = given
    stream = Stream.of(x, targets, 100)
    twice = np.concatenate([x[:20], x[:20]])
    fit = regress_nystrom(rbf, twice, stream, test, ridge=1e-2, dtype="float64")
    once = regress_nystrom(rbf, x[:20], stream, test, ridge=1e-2, dtype="float64")
    assert fit.rank == 20
    np.testing.assert_allclose(fit.predictions, once.predictions, atol=1e-8)


def test_what_is_not_accepted_is_refused_before_work(given, monkeypatch):
    x, targets, test = given
    stream = Stream.of(x, targets)
    with pytest.raises(InputError, match=r"centres are \(0, 3\)"):
        regress_nystrom(rbf, x[:0], stream, test, ridge=1)
    with pytest.raises(InputError, match=r"batch 0 has inputs \(230, 3\)"):
        regress_nystrom(rbf, x[:5, :2], stream, test[:, :2], ridge=1)
    with pytest.raises(InputError, match="ridge is -1"):
        regress_nystrom(rbf, x[:5], stream, test, ridge=-1)
    with pytest.raises(InputError, match="size is 0"):
        Stream.of(x, targets, 0)
    with pytest.raises(InputError, match="inputs are .* and targets"):
        Stream.of(x, targets[:5])
    with pytest.raises(NumericalError, match="3 centres and 2 examples .* larger ridge"):
        regress_nystrom(rbf, x[:3], Stream.of(x[:2], targets[:2]), test, ridge=0)
    with pytest.raises(NumericalError, match="targets has entries that are not finite"):
        regress_nystrom(rbf, x[:3], Stream.of(x, targets * np.nan), test, ridge=1)
    monkeypatch.setattr(memory, "host_available", lambda: 1e4)
    with pytest.raises(
        InputError, match="solving for 50 centres takes .*; accepted: fewer centres"
    ):
        regress_nystrom(rbf, x[:50], stream, test, ridge=1)
