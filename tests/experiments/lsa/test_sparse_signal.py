import itertools
import math

import jax
import numpy as np
import pytest
import scipy.stats

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.sparse_signal import (
    noise_std,
    sample,
    sample_unaligned,
    sparse_signal,
)

# A test that draws with a fixed key fails by chance alone with this probability at most.
RARE = 1e-4


def drawn(key, num_examples, distribution):
    draw = jax.jit(lambda key: sample(key, num_examples, distribution))
    return jax.tree.map(np.asarray, draw(key))


def rotation(d, seed=0):
    """A random orthonormal basis, as rows."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0].T


def signal_rows(data, sigma):
    """Index of the row of length 1, where the noise is far shorter."""
    assert sigma < 0.01
    lengths = np.linalg.norm(data.inputs, axis=-1)
    assert (np.sum(lengths > 0.5, axis=1) == 1).all()
    return lengths.argmax(axis=1)


@pytest.mark.parametrize(("num_examples", "k", "d"), [(1, 1, 1), (1, 1, 4), (3, 5, 1)])
def test_the_smallest_sizes_have_one_signal_row(key, num_examples, k, d):
    data = drawn(key, num_examples, sparse_signal(k, d, 1e-3))
    index = signal_rows(data, 1e-3)
    rows = data.inputs[np.arange(num_examples), index]
    np.testing.assert_array_equal(rows[:, 0], data.targets)


def test_noise_rows_are_normal_and_independent(key):
    sigma, n, k, d = 0.7, 3000, 3, 2
    data = drawn(key, n, sparse_signal(k, d, sigma, signal_row=0))
    noise = data.inputs[:, 1:]
    assert scipy.stats.kstest(noise.ravel() / sigma, "norm").pvalue > RARE
    assert np.abs(np.corrcoef(noise.reshape(n, -1).T) - np.eye(k * d)).max() < 4.5 / math.sqrt(n)


def test_the_signal_row_is_the_label_times_the_feature(key):
    feature = rotation(5)[2]
    data = drawn(key, 200, sparse_signal(6, 5, 0.3, features=feature, signal_row=4))
    assert data.inputs.shape == (200, 7, 5) and data.targets.shape == (200,)
    assert data.inputs.dtype == data.targets.dtype == np.float32
    np.testing.assert_allclose(
        data.inputs[:, 4], data.targets[:, None] * feature[None], rtol=0, atol=1e-6
    )


def test_the_default_feature_is_the_first_basis_vector(key):
    data = drawn(key, 10, sparse_signal(2, 3, 0.3, signal_row=2))
    np.testing.assert_array_equal(data.inputs[:, 2, 0], data.targets)
    np.testing.assert_array_equal(data.inputs[:, 2, 1:], 0)


def test_the_signal_row_is_uniform_and_independent_of_the_label(key):
    k, n, sigma = 4, 20_000, 1e-3
    data = drawn(key, n, sparse_signal(k, 2, sigma))
    index = signal_rows(data, sigma)
    counts = np.array(
        [np.bincount(index[data.targets == label], minlength=k + 1) for label in (-1, 1)]
    )
    assert counts.sum() == n
    assert scipy.stats.chisquare(counts.ravel()).pvalue > RARE


def test_the_same_key_draws_the_same_examples_compiled_or_not(key):
    plain = sample(key, 6, sparse_signal(5, 3, 0.2))
    compiled = jax.jit(lambda key, sigma: sample(key, 6, sparse_signal(5, 3, sigma)))(key, 0.2)
    np.testing.assert_allclose(plain.inputs, compiled.inputs, rtol=1e-6)
    np.testing.assert_array_equal(plain.targets, compiled.targets)


def test_other_keys_draw_other_noise_and_other_labels(key):
    distribution = sparse_signal(5, 3, 0.2, signal_row=0)
    first, second = (drawn(jax.random.fold_in(key, i), 40, distribution) for i in (1, 2))
    assert not (first.inputs[:, 1:] == second.inputs[:, 1:]).any()
    assert (first.targets != second.targets).any()


@pytest.mark.parametrize("m", [1, 2, 4, 5])
def test_coefficients_are_fair_signs_that_do_not_cancel(key, m):
    n, d = 8000, 5
    features = rotation(d)[:m]
    data = drawn(key, n, sparse_signal(2, d, 0.1, features=features, signal_row=1))
    alpha = data.inputs[:, 1] @ features.T
    signs = np.sign(alpha)
    np.testing.assert_allclose(alpha, signs / math.sqrt(m), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(data.targets, np.sign(signs.sum(axis=1)))
    # All sign patterns whose sum is not zero, each as likely as any other.
    patterns = [p for p in itertools.product((-1, 1), repeat=m) if sum(p)]
    counts = [(signs == pattern).all(axis=1).sum() for pattern in patterns]
    assert sum(counts) == n
    assert scipy.stats.chisquare(counts).pvalue > RARE


@pytest.mark.parametrize(("k", "scale", "sigma"), [(1000, 1.0, 0.218442), (100, 0.5, 0.230259)])
def test_noise_std_follows_the_paper(k, scale, sigma):
    assert noise_std(k, scale) == pytest.approx(sigma, rel=1e-5)
    assert jax.jit(lambda scale: noise_std(k, scale))(scale) == pytest.approx(sigma, rel=1e-5)


REFUSED = [
    ({"k": 0}, "k is 0; accepted: a whole number, 1 or more"),
    ({"k": 2.5}, "k is 2.5"),
    ({"d": 0}, "d is 0; accepted"),
    ({"sigma": -0.1}, "sigma is -0.1; accepted: a number, 0 or more"),
    ({"sigma": math.nan}, "sigma is nan"),
    ({"signal_row": 5}, "signal_row is 5; accepted: None, or a whole number, 0 to k = 4"),
    ({"signal_row": -1}, "signal_row is -1"),
    ({"features": [1.0, 0.0]}, r"features has shape \(2,\); accepted: \(3,\), or \(m, 3\)"),
    ({"features": np.zeros((4, 3))}, r"features has shape \(4, 3\)"),
    ({"features": np.zeros((0, 3))}, r"features has shape \(0, 3\)"),
    ({"features": np.zeros((1, 1, 3))}, r"features has shape \(1, 1, 3\)"),
    ({"features": [2.0, 0.0, 0.0]}, "features has inner products up to 3 away"),
    ({"features": [math.nan, 0.0, 0.0]}, "features has inner products up to nan away"),
    ({"features": [[1, 0, 0], [0.6, 0.8, 0]]}, "features has inner products up to 0.6 away"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        sparse_signal(**{"k": 4, "d": 3, "sigma": 0.1} | arguments)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("num_examples", [0, -1, 2.0])
def test_a_wrong_number_of_examples_is_named(key, num_examples):
    with pytest.raises(InputError, match="num_examples is "):
        sample(key, num_examples, sparse_signal(4, 3, 0.1))


@pytest.mark.parametrize(
    ("options", "stride", "message"),
    [
        ({}, 0, "stride is 0; accepted: a whole number, 1 or more"),
        ({}, 5, "stride is 5; accepted: at most the length of a row, 4"),
        ({"features": np.eye(2, 4)}, 1, "there are 2 features and signal_row is None"),
        ({"signal_row": 1}, 1, "there are 1 features and signal_row is 1"),
    ],
)
def test_what_an_unaligned_signal_cannot_have_is_named(key, options, stride, message):
    with pytest.raises(InputError, match=message):
        sample_unaligned(key, 2, sparse_signal(3, 4, 0.1, **options), stride)


@pytest.mark.usefixtures("unchecked")
def test_an_unaligned_sample_has_one_example_or_more(key):
    with pytest.raises(InputError, match="num_examples is 0; accepted: a whole number, 1 or more"):
        sample_unaligned(key, 0, sparse_signal(3, 4, 0.1), 1)


def test_an_unaligned_signal_starts_equally_often_at_every_place_where_it_fits(key):
    """Without noise, of six entries: the signal's two, at the places 0 to 4."""
    n, feature = 5000, np.array([0.6, 0.8])
    signal = sparse_signal(2, 2, 0.0, features=feature)
    data = jax.jit(lambda key: sample_unaligned(key, n, signal, 1))(key)
    inputs, targets = (np.asarray(part) for part in data)
    assert inputs.shape == (n, 5, 2)
    vectors = np.concatenate([inputs[:, :, 0], inputs[:, -1:, 1]], axis=1) * targets[:, None]
    starts = np.argmax(np.abs(vectors) > 0, axis=1)
    for vector, start in zip(vectors[:100], starts, strict=False):
        np.testing.assert_allclose(vector[start : start + 2], feature, rtol=1e-6)
    np.testing.assert_allclose(np.abs(vectors).sum(axis=1), 1.4, rtol=1e-6)
    counts = [np.sum((starts == place) & (targets == y)) for place in range(5) for y in (-1, 1)]
    assert sum(counts) == n and scipy.stats.chisquare(counts).pvalue > RARE
