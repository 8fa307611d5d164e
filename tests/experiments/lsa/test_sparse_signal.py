"""The sparse-signal distribution follows its law, and the network on it the paper's formula."""

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.stats

from lsa_jax.experiments.lsa.sparse_signal import (
    patch_cnn,
    sample,
    sample_unaligned,
    sparse_signal,
)

# A test that draws with a fixed key fails by chance alone with this probability at most.
RARE = 1e-4


def drawn(key, num_examples, distribution):
    draw = jax.jit(lambda key: sample(key, num_examples, distribution))
    return jax.tree.map(np.asarray, draw(key))


def rotation(d):
    """A random orthonormal basis, as rows."""
    return np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0].T


def test_the_signal_row_is_the_label_times_the_feature_and_all_others_are_noise(key):
    sigma, n, k, d = 0.7, 3000, 3, 2
    for feature in (rotation(d)[1], None):
        data = drawn(key, n, sparse_signal(k, d, sigma, features=feature))
        assert data.inputs.shape == (n, k + 1, d) and set(data.targets) == {-1.0, 1.0}
        signal = np.outer(data.targets, np.eye(d)[0] if feature is None else feature)
        is_signal = np.abs(data.inputs - signal[:, None]).max(axis=2) < 1e-6
        assert (is_signal.sum(axis=1) == 1).all()
        counts = [np.sum(is_signal[data.targets == label], axis=0) for label in (-1, 1)]
        assert scipy.stats.chisquare(np.ravel(counts)).pvalue > RARE  # uniform, whatever the label
        noise = data.inputs[~is_signal]
        assert scipy.stats.kstest(noise.ravel() / sigma, "norm").pvalue > RARE
        of_example = np.corrcoef(noise.reshape(n, -1).T) - np.eye(k * d)
        assert np.abs(of_example).max() < 4.5 / math.sqrt(n)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_coefficients_are_fair_signs_that_do_not_cancel(key, m):
    n, features = 8000, rotation(5)[:m]
    data = drawn(key, n, sparse_signal(2, 5, 0.0, features=features))
    alpha = data.inputs.sum(axis=1) @ features.T
    signs = np.sign(alpha)
    np.testing.assert_allclose(alpha, signs / math.sqrt(m), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(data.targets, np.sign(signs.sum(axis=1)))
    # All sign patterns whose sum is not zero, each as likely as any other.
    patterns = [p for p in itertools.product((-1, 1), repeat=m) if sum(p)]
    counts = [(signs == pattern).all(axis=1).sum() for pattern in patterns]
    assert sum(counts) == n and scipy.stats.chisquare(counts).pvalue > RARE


@pytest.mark.parametrize("stride", [1, 3])
def test_an_unaligned_signal_starts_equally_often_at_every_place_where_it_fits(key, stride):
    """Without noise, a vector of 12 entries: the signal's four, at the places 0 to 8."""
    n, d, feature = 5000, 4, np.array([0.1, 0.5, -0.5, 0.7])
    draw = jax.jit(
        lambda key, std: sample_unaligned(
            key, n, sparse_signal(2, d, std, features=feature), stride
        )
    )
    inputs, targets = map(np.asarray, draw(key, 0.0))
    assert inputs.shape == (n, 8 // stride + 1, d)
    windows = stride * np.arange(inputs.shape[1])[:, None] + np.arange(d)
    places = [
        {start: np.pad(y * feature, (start, 8 - start))[windows] for start in range(9)}
        for y in (-1, 1)
    ]
    counts = [
        np.sum((np.abs(inputs - seen) < 1e-6).all(axis=(1, 2)) & (targets == y))
        for y, own in zip((-1, 1), places, strict=True)
        for seen in own.values()
    ]
    assert sum(counts) == n and scipy.stats.chisquare(counts).pvalue > RARE
    loud = np.asarray(draw(key, 0.3)[0])
    assert loud[inputs == 0].std() == pytest.approx(0.3, rel=0.05)


def test_one_filter_is_the_papers_function(key):
    inputs = np.asarray(jax.random.normal(key, (3, 6, 4)))
    w, b = np.array([0.3, -1.0, 0.5, 0.2]), -0.4
    params = {"w": w[:, None].astype(np.float32), "b": np.array([b], np.float32)}
    z = inputs @ w
    # Soft threshold for b < 0: zero within [b, -b], the rest moves by b.
    expected = np.where(np.abs(z) > -b, np.sign(z) * (np.abs(z) + b), 0).sum(axis=1)
    np.testing.assert_allclose(patch_cnn().apply(params, inputs)[:, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("filters", [1, 4])
def test_kernels_are_the_means_over_initialisations(key, filters):
    model = patch_cnn(filters, init_scale=0.7)
    x = jax.random.normal(key, (3, 5, 4))
    x = x.at[1, 2].set(0.0).at[2, 3].set(-x[0, 1])  # a patch of zeros, and two opposite ones

    def sample(key):
        params = model.init(key, x.shape[1:])
        outputs = model.apply(params, x)
        jacobian = jax.jacrev(model.apply)(params, x)
        rows = [leaf.reshape(len(x), -1) for leaf in jax.tree.leaves(jacobian)]
        return {"ntk": sum(row @ row.T for row in rows), "nngp": outputs @ outputs.T}

    draws = jax.jit(jax.vmap(sample))(jax.random.split(key, 4000))
    for get, samples in draws.items():
        samples = np.asarray(samples, np.float64)
        kernel = np.asarray(model.kernel(x, get=get))
        error_bar = samples.std(axis=0) / np.sqrt(len(samples))
        assert np.all(np.abs(samples.mean(axis=0) - kernel) < 4.5 * error_bar + 1e-5)
        assert np.all(error_bar < 0.03 * np.max(kernel))
        np.testing.assert_array_equal(model.kernel(x, x[1:], get), kernel[:, 1:])
