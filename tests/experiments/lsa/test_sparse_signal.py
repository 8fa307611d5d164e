"""The sparse-signal distribution follows its law, and the network on it the paper's formula."""

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.stats

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.patch_cnn import patch_cnn
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


def rotation(d):
    """A random orthonormal basis, as rows."""
    return np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0].T


def test_noise_rows_are_normal_and_independent(key):
    sigma, n, k, d = 0.7, 3000, 3, 2
    noise = drawn(key, n, sparse_signal(k, d, sigma, signal_row=0)).inputs[:, 1:]
    assert scipy.stats.kstest(noise.ravel() / sigma, "norm").pvalue > RARE
    assert np.abs(np.corrcoef(noise.reshape(n, -1).T) - np.eye(k * d)).max() < 4.5 / math.sqrt(n)


def test_the_signal_row_is_the_label_times_the_feature(key):
    for feature in (rotation(5)[2], None):
        data = drawn(key, 200, sparse_signal(6, 5, 0.3, features=feature, signal_row=4))
        assert data.inputs.shape == (200, 7, 5) and set(data.targets) == {-1.0, 1.0}
        wanted = np.outer(data.targets, np.eye(5)[0] if feature is None else feature)
        np.testing.assert_allclose(data.inputs[:, 4], wanted, rtol=0, atol=1e-6)


def test_the_signal_row_is_uniform_and_independent_of_the_label(key):
    k, n = 4, 20_000
    data = drawn(key, n, sparse_signal(k, 2, 1e-3))
    lengths = np.linalg.norm(data.inputs, axis=-1)
    assert (np.sum(lengths > 0.5, axis=1) == 1).all()
    index = lengths.argmax(axis=1)
    counts = [np.bincount(index[data.targets == label], minlength=k + 1) for label in (-1, 1)]
    assert scipy.stats.chisquare(np.ravel(counts)).pvalue > RARE


def test_a_key_draws_the_same_examples_compiled_or_not_and_another_key_others(key):
    plain = sample(key, 40, sparse_signal(5, 3, 0.2, signal_row=0))
    compiled = drawn(key, 40, sparse_signal(5, 3, 0.2, signal_row=0))
    np.testing.assert_allclose(plain.inputs, compiled.inputs, rtol=1e-6)
    np.testing.assert_array_equal(plain.targets, compiled.targets)
    other = drawn(jax.random.fold_in(key, 1), 40, sparse_signal(5, 3, 0.2, signal_row=0))
    assert not (other.inputs[:, 1:] == compiled.inputs[:, 1:]).any()
    assert (other.targets != compiled.targets).any()


@pytest.mark.parametrize("m", [1, 2, 5])
def test_coefficients_are_fair_signs_that_do_not_cancel(key, m):
    n, features = 8000, rotation(5)[:m]
    data = drawn(key, n, sparse_signal(2, 5, 0.1, features=features, signal_row=1))
    alpha = data.inputs[:, 1] @ features.T
    signs = np.sign(alpha)
    np.testing.assert_allclose(alpha, signs / math.sqrt(m), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(data.targets, np.sign(signs.sum(axis=1)))
    # All sign patterns whose sum is not zero, each as likely as any other.
    patterns = [p for p in itertools.product((-1, 1), repeat=m) if sum(p)]
    counts = [(signs == pattern).all(axis=1).sum() for pattern in patterns]
    assert sum(counts) == n and scipy.stats.chisquare(counts).pvalue > RARE


@pytest.mark.parametrize(("k", "scale", "sigma"), [(1000, 1.0, 0.218442), (100, 0.5, 0.230259)])
def test_noise_std_follows_the_paper(k, scale, sigma):
    assert noise_std(k, scale) == pytest.approx(sigma, rel=1e-5)


def test_an_unaligned_signal_starts_equally_often_at_every_place_where_it_fits(key):
    """Without noise, of six entries: the signal's two, at the places 0 to 4."""
    n, feature = 5000, np.array([0.6, 0.8])
    signal = sparse_signal(2, 2, 0.0, features=feature)
    inputs, targets = jax.jit(lambda key: sample_unaligned(key, n, signal, 1))(key)
    inputs, targets = np.asarray(inputs), np.asarray(targets)
    assert inputs.shape == (n, 5, 2)
    vectors = np.concatenate([inputs[:, :, 0], inputs[:, -1:, 1]], axis=1) * targets[:, None]
    starts = np.argmax(np.abs(vectors) > 0, axis=1)
    for vector, start in zip(vectors[:100], starts, strict=False):
        np.testing.assert_allclose(vector[start : start + 2], feature, rtol=1e-6)
    np.testing.assert_allclose(np.abs(vectors).sum(axis=1), 1.4, rtol=1e-6)
    counts = [np.sum((starts == place) & (targets == y)) for place in range(5) for y in (-1, 1)]
    assert sum(counts) == n and scipy.stats.chisquare(counts).pvalue > RARE


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"k": 2.5}, "k"),
        ({"d": 0}, "d"),
        ({"sigma": -0.1}, "sigma"),
        ({"signal_row": 5}, "signal_row"),
        ({"features": np.zeros((4, 3))}, "features"),
        ({"features": [2.0, 0.0, 0.0]}, "features"),
        ({"features": [[1, 0, 0], [0.6, 0.8, 0]]}, "features"),
        ({"features": [math.nan, 0.0, 0.0]}, "features"),
        ({"num_examples": 0}, "num_examples"),
        ({"stride": 0}, "stride"),
        ({"stride": 4}, "stride"),
        ({"stride": 1, "features": np.eye(2, 3)}, "there are 2 features"),
    ],
)
def test_a_wrong_argument_is_named(key, arguments, name):
    given = {"k": 4, "d": 3, "sigma": 0.1, "num_examples": 2, "stride": None} | arguments
    count, stride = given.pop("num_examples"), given.pop("stride")
    with pytest.raises(InputError, match=f"^{name} "):
        if stride is None:
            sample(key, count, sparse_signal(**given))
        else:
            sample_unaligned(key, count, sparse_signal(**given), stride)


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


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "mistake",
    [
        lambda key: patch_cnn(0),
        lambda key: patch_cnn(init_scale=0.0),
        lambda key: patch_cnn().init(key, (3,)),
        lambda key: patch_cnn().kernel(np.ones((2, 3, 4)), get="NTK"),
    ],
)
def test_mistakes_in_a_network_are_one_line(key, mistake):
    with pytest.raises(InputError, match="^[^\n]*accepted[^\n]*$"):
        mistake(key)
