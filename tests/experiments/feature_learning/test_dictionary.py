"""Laws of hidden patterns and of Gaussian clusters, and keys of independent draws."""

import jax
import numpy as np
import pytest

from lsa_jax.experiments.feature_learning import dictionary

RELEVANT = np.array([1, 4, 6])
IS_RELEVANT = np.isin(np.arange(8), RELEVANT)
COUNT = 4000
ERROR = 5 * 0.5 / COUNT**0.5  # five standard errors of a share


def draw(law, seed=0, count=COUNT, negative_share=None):
    return dictionary.draw_patterns(jax.random.key(seed), count, law, negative_share)


def test_labels_count_the_relevant_patterns():
    phi, y = draw(dictionary.parity_mixture(8, RELEVANT, 0.5))
    counts = phi[:, RELEVANT].sum(axis=1)
    np.testing.assert_array_equal(y, np.where(counts % 2 == 1, 1, -1))
    interval = dictionary.count_label(RELEVANT, (1, 2))(phi)
    np.testing.assert_array_equal(interval, np.where((counts == 1) | (counts == 2), 1, -1))


@pytest.mark.parametrize("p0", [0.0, 0.2, 0.6, 2 / 3])
def test_the_mixture_leaves_every_pattern_its_probability_and_correlates_the_relevant_ones(p0):
    """Others are there with p0/2 + (1 - p0) p0/(2 - 2 p0) = p0, relevant ones with 1/2.

    Where the relevant ones are all alike, E[y phi_j] = 1/2 * 1/2, and there is no correlation else.
    """
    law = dictionary.parity_mixture(8, RELEVANT, p0)
    phi, y = draw(law)
    np.testing.assert_allclose(phi.mean(axis=0), np.where(IS_RELEVANT, 0.5, p0), atol=ERROR)
    gammas = np.where(IS_RELEVANT, (1 - p0) / 2, 0.0)
    np.testing.assert_allclose(dictionary.correlations(phi, y), gammas, atol=ERROR)
    alike = phi[:, RELEVANT].std(axis=1) == 0
    assert alike.mean() == pytest.approx(1 - p0 + p0 / 4, abs=0.04)
    if p0:  # where the relevant ones differ all patterns are coins; elsewhere the others are rarer
        others = phi[:, ~IS_RELEVANT]
        error = 4 * 0.5 / (5 * (~alike).sum()) ** 0.5
        assert others[~alike].mean() == pytest.approx(0.5, abs=error)
    coins = draw(dictionary.without_structure(law), seed=1)
    assert np.abs(dictionary.correlations(*coins)).max() < ERROR


def test_the_share_of_negative_labels_is_exact():
    law = dictionary.parity_mixture(8, RELEVANT, 0.5)
    phi, y = draw(law, 2, 200, 0.9)
    assert (y < 0).sum() == 180
    np.testing.assert_array_equal(y, law.label(phi))


def test_hidden_vectors_have_the_label_of_their_vector():
    law = dictionary.hidden_vectors(jax.random.key(0), 30, np.arange(20), 3)
    phi, y = draw(law, 1, 300)
    seen = {tuple(row): label for row, label in zip(phi[:, :20], y, strict=True)}
    assert len(seen) == 6 and sum(seen.values()) == 0
    assert all(seen[tuple(row)] == label for row, label in zip(phi[:, :20], y, strict=True))
    assert phi[:, 20:].mean() == pytest.approx(0.5, abs=5 * 0.5 / 3000**0.5)


def test_normalised_inputs_have_length_one_on_average(key):
    phi, _ = draw(dictionary.parity_mixture(8, RELEVANT, 0.5))
    matrix = dictionary.orthonormal_dictionary(key, 12, 8)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(8), atol=1e-5)
    x = np.asarray(dictionary.compose(key, phi, matrix, 0.3))
    mean, scale = dictionary.normalisation(x)
    assert np.square((x - mean) / scale).sum(axis=1).mean() == pytest.approx(1, rel=1e-4)
    # The variances of 8 fair coins, and of the noise in 12 coordinates.
    assert scale**2 == pytest.approx(8 * 0.25 + 12 * 0.09, rel=0.05)


def test_columns_of_an_incoherent_dictionary_are_directions_at_small_products(key):
    matrix = np.asarray(dictionary.incoherent_dictionary(key, 1000, 4))
    products = np.abs(matrix.T @ matrix)
    np.testing.assert_allclose(np.diagonal(products), 1, rtol=1e-5)
    assert 0 < products[~np.eye(4, dtype=bool)].max() < 5 / 1000**0.5


def test_gaussian_clusters_lie_around_the_corners(key):
    centres = dictionary.orthonormal_dictionary(key, 6, 3)
    x, y = dictionary.gaussian_mixture(key, 500, centres, 0.05)
    signs = np.sign(np.asarray(x @ centres))
    np.testing.assert_array_equal(y, signs.prod(axis=1))
    assert np.std(x - signs @ centres.T) == pytest.approx(0.05, rel=0.1)
