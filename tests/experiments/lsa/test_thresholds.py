"""The finite CNTK: its features, their covariance, and the search for thresholds."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lsa_jax.experiments.lsa.kernel_bound.thresholds import (
    Design,
    candidates,
    discriminant,
    draw_directions,
    draw_features,
    row_covariance,
    search_thresholds,
    separation,
    signal_features,
    sum_passing_rows,
)

# Means are compared in standard errors; a few dozen of them are, so 4.5 fails by chance at 1e-4.
MANY = 4.5


def kernel(inputs, weights, filters, biases):
    """The definition of k_w in the paper, example by example, row by row, filter by filter."""
    total = np.zeros(len(inputs))
    for example, i, j in itertools.product(*map(range, (*inputs.shape[:2], len(filters)))):
        row = inputs[example, i]
        if abs(filters[j] @ row) + biases[j] >= 0:
            total[example] += weights[j] @ row
    return total


def to_float32(tree):
    return jax.tree.map(lambda array: jnp.asarray(array, jnp.float32), tree)


def random_design(m, r, seed=0):
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(m, r))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Design(directions, generator.uniform(0, 1.5, m))


def test_the_features_are_those_of_the_kernel():
    generator = np.random.default_rng(0)
    inputs, weights = generator.normal(size=(4, 6, 3)), generator.normal(size=(2, 3))
    filters, biases = generator.normal(size=(2, 3)), np.array([-0.7, -1.5])
    lengths = np.linalg.norm(filters, axis=1)
    arguments = to_float32((filters / lengths[:, None], -biases / lengths))
    features = np.stack([sum_passing_rows(rows, *arguments) for rows in to_float32(inputs)])
    found = np.sum(features * weights[None], axis=(1, 2))
    np.testing.assert_allclose(found, kernel(inputs, weights, filters, biases), rtol=1e-5)


def test_filters_keep_their_angles_in_the_coordinates_that_begin_with_the_signal(key):
    d, m = 6, 3
    filters = np.asarray(jax.random.normal(key, (m, d)), np.float64)
    filters /= np.linalg.norm(filters, axis=1, keepdims=True)
    directions = draw_directions(key, m, d)
    assert directions.shape == (m, m + 1)
    np.testing.assert_allclose(directions[:, 0], filters[:, 0], atol=1e-12)
    np.testing.assert_allclose(directions @ directions.T, filters @ filters.T, atol=1e-12)
    # The first filters need just the first coordinates.
    first = directions[:1, :2]
    assert first.shape == (1, 2) and np.linalg.norm(first) == pytest.approx(1)
    assert draw_directions(key, 8, d).shape == (8, d)


def test_the_covariance_is_that_of_drawn_rows():
    # Two filters nearly parallel, one opposite to another, one that lets every row pass.
    directions = random_design(3, 3).directions
    near = directions[:1] + 0.1 * directions[1:2]
    directions = np.concatenate([directions, -directions[2:], near / np.linalg.norm(near)])
    design = Design(directions, np.array([0.8, 0.0, 1.3, 0.4, 1.0]))
    rows = np.random.default_rng(1).normal(size=(100_000, 3))
    passes = np.abs(rows @ directions.T) >= design.thresholds
    features = (passes[:, :, None] * rows[:, None]).reshape(len(rows), -1)
    error = features.T @ features / len(rows) - row_covariance(design, design)
    spread = np.sqrt((features**2).T @ features**2 / len(rows) ** 2)
    assert (np.abs(error) < MANY * spread + 1e-9).all()


def test_features_of_examples_have_the_mean_and_covariance_of_the_population(key):
    k, sigma, n = 20, 0.4, 2000
    design = Design(random_design(2, 3).directions, np.array([0.3, 1.1]))
    (features,) = draw_features(key, [design], sigma, k=k, num_examples=n)
    away = features - signal_features(design, sigma)
    covariance = k * sigma**2 * row_covariance(design, design)
    assert (np.abs(away.mean(axis=0)) < MANY * np.sqrt(np.diag(covariance) / n)).all()
    products = away[:, :, None] * away[:, None]
    error = np.abs(products.mean(axis=0) - covariance)
    assert (error < MANY * products.std(axis=0) / math.sqrt(n)).all()


def test_without_thresholds_the_least_error_is_that_of_the_sum_of_all_rows(key):
    # b large: every row passes, the features are the sum of all rows, and no weights do better than
    # w*, whose output is y + N(0, k sigma^2).
    k, sigma, n = 9, 0.4, 4000
    design = Design(draw_directions(key, 1, 4), np.zeros(1))
    least = scipy.stats.norm.cdf(-1 / (sigma * math.sqrt(k)))
    assert scipy.stats.norm.cdf(-separation(design, sigma, k)) == pytest.approx(least, rel=1e-6)
    weights = discriminant(design, sigma, k)
    np.testing.assert_allclose(weights, [2 / (k * sigma**2), 0], rtol=1e-6, atol=1e-9)
    (features,) = draw_features(key, [design], sigma, k=k, num_examples=n)
    errors = np.mean(features @ weights <= 0)
    assert abs(errors - least) < MANY * math.sqrt(least * (1 - least) / n)


def best_separation(directions, choices, sigma, k):
    return max(
        separation(Design(directions, np.array(thresholds)), sigma, k)
        for thresholds in itertools.product(*choices)
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_the_best_thresholds_of_two_filters(seed):
    sigma, k, shares = 0.3, 50, (0.3, 0.05)
    directions = random_design(2, 3, seed).directions
    choices = candidates(directions, sigma, shares)
    found = search_thresholds(directions, sigma, k, shares, sweeps=3, starts=8)
    wanted = best_separation(directions, choices, sigma, k)
    assert separation(found, sigma, k) == pytest.approx(wanted, rel=1e-6)


def test_more_filters_never_do_worse(key):
    sigma, k, shares = 0.3, 50, (0.1,)
    directions = draw_directions(key, 6, 8)
    known, last = None, 0.0
    for m in range(1, 7):
        rows = directions[:m, : m + 1]
        design = search_thresholds(rows, sigma, k, shares, sweeps=0, starts=1, known=known)
        known, before, last = design.thresholds, last, separation(design, sigma, k)
        assert last >= before * (1 - 1e-6)
