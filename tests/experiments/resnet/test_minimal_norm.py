"""Networks of small norm: their construction, their search, claims and report."""

import functools
import itertools

import jax
import numpy as np
import pytest
from small_sweeps import SEARCH, maker

from lsa_jax.experiments.resnet.minimal_norm import experiment, settings

TINY = SEARCH | {"d": 9, "num_train": 50, "num_test": 20, "batch_size": 50, "init_std": 0.25}
TINY |= {"search.learning_rates": (2.0, 1.0), "search.weight_decays": (1e-3, 1e-4, 1e-5)}
TINY |= {"search.check_epoch": 2, "search.hopeless": 7.0, "sweep.penalty": ()}
TINY["sweep.width"] = (400,)
make = maker(settings.SETTINGS, TINY)


@pytest.mark.parametrize("width", [12, 14, 22])
def test_an_enlarged_network_computes_the_same(key, width):
    small = np.asarray(jax.random.normal(key, (6, 6)))
    signs = np.sign(experiment.all_inputs())
    x = np.concatenate([signs, -signs[:, :3]], axis=1) / 3.0  # d = 9
    large = experiment.enlarge(small, 9, width)
    expected = experiment.network({"w": small}, experiment.all_inputs())
    np.testing.assert_allclose(experiment.network({"w": large}, x), expected, rtol=1e-4, atol=1e-5)
    if width == 12:
        norm = np.linalg.norm(small) / 6**0.5
        assert experiment.relative_norm(large) == pytest.approx(norm, rel=1e-5)


def test_the_network_is_half_the_neurons_less_the_other_half(key):
    w, x = np.asarray(jax.random.normal(key, (6, 8)), float), experiment.all_inputs()
    np.testing.assert_allclose(np.abs(x), 6**-0.5, rtol=1e-6)
    assert len({tuple(row) for row in np.sign(x)}) == 2**6
    neurons = np.maximum(x @ w, 0) / 8**0.5
    expected = neurons[:, :4].sum(axis=1) - neurons[:, 4:].sum(axis=1)
    np.testing.assert_allclose(
        experiment.network({"w": w}, x)[:, 0], expected, rtol=1e-4, atol=1e-5
    )


def test_a_fitted_network_is_stationary_in_its_size(key):
    """F is of degree 1 in W: at the least mean (t F - y)^2 + lambda t^2 |W|^2 / 6, here at t = 1,
    mean (y - F) F is lambda |W|^2 / 6."""
    penalty = 3e-3
    fit = functools.partial(experiment.fit_small, width=40, steps=2000, rate=0.05)
    w = np.asarray(jax.jit(fit)(key, penalty), float)
    x = np.array(list(itertools.product((-1, 1), repeat=6))) / 6**0.5
    y, neurons = np.prod(np.sign(x), axis=1), np.maximum(x @ w, 0) / 40**0.5
    f = neurons[:, :20].sum(axis=1) - neurons[:, 20:].sum(axis=1)
    assert np.mean((y - f) ** 2) < 0.5
    assert np.mean((y - f) * f) == pytest.approx(penalty * np.sum(w**2) / 6, rel=0.01)


def test_the_error_by_hand_is_over_all_inputs(key):
    """Of 2^8 inputs of d = 8, two of which have no weight."""
    large = experiment.enlarge(np.asarray(jax.random.normal(key, (6, 6))), 8, 12)
    x = np.array(list(itertools.product((-1.0, 1.0), repeat=8))) / 8**0.5
    expected = np.mean(
        np.square(experiment.network({"w": large}, x) - experiment.product_of_six(x))
    )
    assert experiment.exact_error(large) == pytest.approx(float(expected), rel=1e-5)


def test_a_search_reports_the_candidates_that_reached_the_end_and_the_best_of_them(tmp_path):
    sizes = {"num_test": 64, "sweep__width": (10,), "search__hopeless": 1e6}
    rates = {"search__learning_rates": (1.0, 1e30, 0.5), "search__weight_decays": (1e-5,)}
    points = make(**rates, **sizes)[1]
    (one,) = experiment.run(points, None, tmp_path, lambda fraction: None)
    assert [row["learning_rate"] for row in one.history] == [1.0, 0.5]
    best = min(one.history, key=lambda row: row["test_error"])
    assert one.metrics == best | {"candidates": 3, "candidates_finished": 2}
    kept = np.square(one.outcomes.values.astype(float)).mean()  # labels are signs
    mean = experiment.draw_examples(experiment._stream(points[0].config, 1), 64, 9).targets.mean()
    assert kept * (1 - mean**2) == pytest.approx(best["test_error"], rel=5e-3)
    lost = make(**rates | {"search__learning_rates": (1e30,)}, **sizes)[1]
    (failed,) = experiment.run(lost, None, tmp_path / "lost", lambda fraction: None)
    assert failed.status == "failed"
    assert experiment.make_search(points[0].config)._plan.rungs == {2: 3}  # drops none but those


def test_a_larger_penalty_makes_a_smaller_network_that_errs_more_at_every_width(tmp_path):
    hands = {
        "sweep__penalty": (1e-3, 1e-2),
        "sweep__hand_width": (40, 80),
        "sweep__width": (20, 40),
    }
    _, points = make(small_width=40, steps=300, **hands)
    group, *searches = experiment.EXPERIMENT.groups(points)
    assert [one.config.width for (one,) in searches] == [20, 40]
    found = experiment.run(group, None, tmp_path, lambda fraction: None)
    by_place = [tuple(one.metrics.values()) for one in found]
    np.testing.assert_allclose(by_place[:2], by_place[2:], rtol=1e-3)  # duplicated
    (norm, error), (smaller, larger) = by_place[:2]
    assert smaller < norm and 0 < error < larger < 1
