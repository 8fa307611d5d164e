"""What is searched among networks of small norm, and what is kept of it, from made-up results."""

import itertools

import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax.experiments.resnet.minimal_norm import experiment, settings
from lsa_jax.experiments.resnet.minimal_norm.construction import enlarge
from lsa_jax.experiments.resnet.search import Rung, SearchResult

RATES, DECAYS = (2.0, 1.0), (1e-3, 1e-4, 1e-5)
TINY = {
    "d": 9,
    "num_train": 50,
    "num_test": 20,
    "epochs": 4,
    "eval_every": 2,
    "init_std": 0.25,
    "search.learning_rates": RATES,
    "search.weight_decays": DECAYS,
    "search.check_epoch": 2,
    "search.hopeless": 7.0,
    "sweep.penalty": (),
    "sweep.width": (400,),
}
make = maker(settings, TINY)


def result(last, trained):
    """Returns a search of six candidates, whose weights have norms of 3 times 1 to 6."""
    errors = np.array([[9.0] * 6, last])
    w = np.zeros((6, 9, 400))
    w[:, 2, 5] = 3 * np.arange(1, 7)
    return SearchResult(None, {"w": w}, [2, 4], errors / 2, errors, np.array(trained), [], None)


def run_with(monkeypatch, tmp_path, found, **fields):
    """Returns the outcome of a search that finds what is given, and what it was told."""
    told = []

    class Fake:
        def run(self, key, start, train, test, grid, **options):
            told.extend([start, train, test, grid])
            return found

    monkeypatch.setattr(experiment, "make_search", lambda config: Fake())
    _, points = make(**fields)
    (outcome,) = experiment.run(points, None, tmp_path, lambda fraction: None)
    return outcome, told


def test_every_rate_is_tried_with_every_decay_from_weights_of_the_size_asked_for(
    monkeypatch, tmp_path
):
    _, (start, train, test, grid) = run_with(monkeypatch, tmp_path, result([1.0] * 6, [4] * 6))
    pairs = np.stack([grid["learning_rate"], grid["weight_decay"]], axis=1)
    np.testing.assert_allclose(pairs, list(itertools.product(RATES, DECAYS)), rtol=1e-6)
    assert start["w"].shape == (9, 400)
    assert np.std(start["w"]) == pytest.approx(0.25, rel=0.05)
    assert [len(train.inputs), len(test.inputs)] == [50, 20]
    assert not np.array_equal(train.inputs[:20], test.inputs)
    np.testing.assert_allclose(np.abs(train.inputs), 1 / 3, rtol=1e-6)


def test_a_row_is_a_candidate_that_reached_the_end_and_the_best_one_is_told(monkeypatch, tmp_path):
    found = result([0.5, 0.1, np.inf, 0.25, 0.75, 0.3], [4, 2, 4, 4, 4, 4])
    outcome, _ = run_with(monkeypatch, tmp_path, found)
    tried = list(itertools.product(RATES, DECAYS))
    expected = [  # |W|_F / sqrt(9)
        {
            "learning_rate": tried[place][0],
            "weight_decay": tried[place][1],
            "train_error": error / 2,
            "test_error": error,
            "relative_norm": place + 1.0,
        }
        for place, error in ((0, 0.5), (3, 0.25), (4, 0.75), (5, 0.3))
    ]
    assert outcome.history == expected
    kept = {"candidates": 6, "candidates_finished": 4, "part": "search", "width": 400, "d": 9}
    assert outcome.metrics.items() >= (expected[1] | kept).items()


def test_a_search_whose_candidates_all_diverged_has_failed(monkeypatch, tmp_path):
    outcome, _ = run_with(monkeypatch, tmp_path, result([1.0] * 6, [2] * 6))
    assert outcome.status == "failed" and "all 6 candidates diverged" in outcome.message


def test_a_search_drops_who_diverged_and_no_one_else(monkeypatch):
    told, search = [], experiment.momentum_search
    monkeypatch.setattr(
        experiment, "momentum_search", lambda *given: told.extend(given) or search(*given)
    )
    _, points = make()
    experiment.make_search(points[0].config)
    _, plan, _ = told
    assert plan.rungs == (Rung(2, 6),) and plan.hopeless == 7.0
    assert (plan.epochs, plan.eval_every, plan.batch_size) == (4, 2, 50)


def test_a_larger_penalty_makes_a_smaller_network_that_errs_more_at_every_width(tmp_path):
    hands = {"sweep__penalty": (1e-3, 1e-2), "sweep__hand_width": (40, 80), "sweep__width": ()}
    sizes = {"small_width": 40, "steps": 300, "num_test": 1000, "d": 9}
    _, points = make(**hands, **sizes)
    (group,) = experiment.groups(points)
    outcomes = experiment.run(group, None, tmp_path, lambda fraction: None)
    assert [o.metrics["width"] for o in outcomes] == [40, 40, 80, 80]
    by_place = [(o.metrics["relative_norm"], o.metrics["test_error"]) for o in outcomes]
    np.testing.assert_allclose(by_place[:2], by_place[2:], rtol=1e-3)  # duplicated
    (norm, error), (smaller, larger) = by_place[:2]
    assert smaller < norm and error < larger < 1 and error > 0
    small = enlarge(np.ones((6, 40), np.float32), 9, 40)
    assert experiment.relative_norm(small) == pytest.approx(np.sqrt(6 * 40 * 9 / 6) / 3)


def test_networks_by_hand_are_one_group_and_searches_their_own():
    axes = {"sweep__penalty": (1e-3, 1e-2), "sweep__hand_width": (400,), "sweep__width": (20, 40)}
    _, points = make(small_width=40, **axes)
    hands, *searches = experiment.groups(points)
    assert [len(hands), len(searches)] == [2, 2] and hands[0].config.part == "construction"
    assert [group[0].config.width for group in searches] == [20, 40]
    assert experiment.groups(points[2:]) == searches
