"""Networks of small norm: what enlarging keeps, exact errors, a sweep from end to end."""

import functools
import itertools

import jax
import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.resnet.minimal_norm import settings
from lsa_jax.experiments.resnet.minimal_norm.construction import (
    all_inputs,
    enlarge,
    exact_error,
    fit_small,
    network,
    product_of_six,
)
from lsa_jax.experiments.resnet.minimal_norm.experiment import (
    draw_examples,
    relative_norm,
)
from lsa_jax.experiments.resnet.minimal_norm.report import least_norms
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.run import run_sweep
from lsa_jax.sweep.variants import set_fields


@pytest.mark.parametrize("width", [12, 14, 22])
def test_an_enlarged_network_computes_the_same(key, width):
    small = np.asarray(jax.random.normal(key, (6, 6)))
    signs = np.sign(all_inputs())
    x = np.concatenate([signs, -signs[:, :3]], axis=1) / 3.0  # d = 9
    large = enlarge(small, 9, width)
    expected = network({"w": small}, all_inputs())
    np.testing.assert_allclose(network({"w": large}, x), expected, rtol=1e-4, atol=1e-5)
    if width == 12:
        assert relative_norm(large) == pytest.approx(np.linalg.norm(small) / 6**0.5, rel=1e-5)


def test_the_network_is_half_the_neurons_less_the_other_half(key):
    w = np.asarray(jax.random.normal(key, (6, 8)), float)
    x = all_inputs()
    np.testing.assert_allclose(np.abs(x), 6**-0.5, rtol=1e-6)
    assert len({tuple(row) for row in np.sign(x)}) == 2**6
    neurons = np.maximum(x @ w, 0) / 8**0.5
    expected = neurons[:, :4].sum(axis=1) - neurons[:, 4:].sum(axis=1)
    np.testing.assert_allclose(network({"w": w}, x)[:, 0], expected, rtol=1e-4, atol=1e-5)


def test_a_fitted_network_is_stationary_in_its_size(key):
    """F is of degree 1 in W: at the least mean (t F - y)^2 + lambda t^2 |W|^2 / 6, here at t = 1,
    mean (y - F) F is lambda |W|^2 / 6."""
    penalty = 3e-3
    fit = functools.partial(fit_small, width=40, steps=2000, rate=0.05)
    w = np.asarray(jax.jit(fit)(key, penalty), float)
    x = np.array(list(itertools.product((-1, 1), repeat=6))) / 6**0.5
    y, neurons = np.prod(np.sign(x), axis=1), np.maximum(x @ w, 0) / 40**0.5
    f = neurons[:, :20].sum(axis=1) - neurons[:, 20:].sum(axis=1)
    assert np.mean((y - f) ** 2) < 0.5
    assert np.mean((y - f) * f) == pytest.approx(penalty * np.sum(w**2) / 6, rel=0.01)


def test_labels_are_the_scaled_product_of_six_inputs(key):
    inputs, labels = draw_examples(key, 20, 10)
    expected = 10.0**3 * np.prod(np.asarray(inputs, float)[:, :6], axis=1)
    np.testing.assert_allclose(labels[:, 0], expected, rtol=1e-5)
    assert float(np.mean(product_of_six(all_inputs()))) == 0
    np.testing.assert_allclose(np.linalg.norm(inputs, axis=1), 1, rtol=1e-5)


def test_the_error_by_hand_is_that_of_all_inputs(key):
    """Of 2^8 inputs of d = 8, two of which have no weight."""
    large = enlarge(np.asarray(jax.random.normal(key, (6, 6))), 8, 12)
    x = np.array(list(itertools.product((-1.0, 1.0), repeat=8))) / 8**0.5
    expected = np.mean(np.square(network({"w": large}, x) - product_of_six(x)))
    assert exact_error(large) == pytest.approx(float(expected), rel=1e-5)


def test_the_least_norm_is_among_the_runs_with_at_most_an_error():
    hand = pd.DataFrame({"relative_norm": [9.9, 14.0, 20.0], "test_error": [0.11, 0.03, 0.001]})
    assert least_norms(hand, "test_error")["relative_norm"].tolist() == [20.0, 14.0, 9.9]


def test_a_sweep_makes_networks_by_hand_and_searches_others(tmp_path):
    config = set_fields(
        settings.default_config(),
        {
            "d": 8,
            "num_train": 40,
            "num_test": 64,
            "small_width": 40,
            "steps": 400,
            "batch_size": 20,
            "epochs": 4,
            "fall_epoch": 2,
            "eval_every": 2,
            "search.learning_rates": (1.0, 1e30),
            "search.check_epoch": 2,
            "sweep.penalty": (1e-4,),
            "sweep.hand_width": (80,),
            "sweep.width": (10,),
        },
    )
    points = make_points(config, settings.sweep(config), settings.validate)
    results = run_sweep(config, points, tmp_path / "out", data_dir=None, command=["test"])
    hand, search = results.iloc[0], results.iloc[1]
    assert hand["test_error"] < 0.2
    assert search["candidates"] == 2 and search["candidates_finished"] == 1
    assert (tmp_path / "out" / "minimal_norm.svg").stat().st_size > 0
