"""Networks of small norm: their construction, their search, claims and report."""

import functools
import itertools

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.errors import InputError
from lsa_jax.experiments.resnet.minimal_norm import experiment, settings
from lsa_jax.experiments.resnet.minimal_norm.experiment import (
    all_inputs,
    enlarge,
    exact_error,
    fit_small,
    network,
    product_of_six,
)
from lsa_jax.experiments.resnet.minimal_norm.report import make_report
from lsa_jax.experiments.resnet.search import Search, SearchResult
from lsa_jax.reporting import files
from lsa_jax.sweep.variants import set_fields

UNMET = "condition not met"
TINY = {
    "d": 9,
    "num_train": 50,
    "num_test": 20,
    "epochs": 4,
    "fall_epoch": 2,
    "eval_every": 2,
    "init_std": 0.25,
    "search.learning_rates": (2.0, 1.0),
    "search.weight_decays": (1e-3, 1e-4, 1e-5),
    "search.check_epoch": 2,
    "search.hopeless": 7.0,
    "sweep.penalty": (),
    "sweep.width": (400,),
}
make = maker(settings.SETTINGS, TINY)


@pytest.mark.parametrize("width", [12, 14, 22])
def test_an_enlarged_network_computes_the_same(key, width):
    small = np.asarray(jax.random.normal(key, (6, 6)))
    signs = np.sign(all_inputs())
    x = np.concatenate([signs, -signs[:, :3]], axis=1) / 3.0  # d = 9
    large = enlarge(small, 9, width)
    expected = network({"w": small}, all_inputs())
    np.testing.assert_allclose(network({"w": large}, x), expected, rtol=1e-4, atol=1e-5)
    if width == 12:
        norm = np.linalg.norm(small) / 6**0.5
        assert experiment.relative_norm(large) == pytest.approx(norm, rel=1e-5)


def test_the_network_is_half_the_neurons_less_the_other_half(key):
    w, x = np.asarray(jax.random.normal(key, (6, 8)), float), all_inputs()
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


def test_the_error_by_hand_is_over_all_inputs(key):
    """Of 2^8 inputs of d = 8, two of which have no weight."""
    large = enlarge(np.asarray(jax.random.normal(key, (6, 6))), 8, 12)
    x = np.array(list(itertools.product((-1.0, 1.0), repeat=8))) / 8**0.5
    expected = np.mean(np.square(network({"w": large}, x) - product_of_six(x)))
    assert exact_error(large) == pytest.approx(float(expected), rel=1e-5)


def test_a_search_leaves_out_candidates_that_diverged(tmp_path):
    sizes = {"num_test": 64, "sweep__width": (10,), "search__hopeless": 1e6}
    rates = {"search__learning_rates": (1.0, 1e30), "search__weight_decays": (1e-5,)}
    (outcome,) = experiment.run(make(**rates, **sizes)[1], None, tmp_path, lambda fraction: None)
    assert (outcome.metrics["candidates"], outcome.metrics["candidates_finished"]) == (2, 1)


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


def result(last, trained):
    """Returns a search of six candidates, whose weights have norms of 3 times 1 to 6."""
    errors = np.array([[9.0] * 6, last])
    w = np.zeros((6, 9, 400), np.float32)
    w[:, 2, 5] = 3 * np.arange(1, 7)
    return SearchResult(None, {"w": w}, [2, 4], errors / 2, errors, np.array(trained), [], None)


def run_with(monkeypatch, tmp_path, found):
    """Returns the outcome of a search that finds a given result, its plan and its arguments."""
    given = []

    class Fake(Search):
        def run(self, key, start, train, test, grid, **options):
            given.extend([self._plan, start, train, test, grid])
            return found

    monkeypatch.setattr(experiment, "Search", Fake)
    _, points = make()
    (outcome,) = experiment.run(points, None, tmp_path, lambda fraction: None)
    return outcome, given


def test_rows_are_the_candidates_that_reached_the_end_and_the_best_is_reported(
    monkeypatch, tmp_path
):
    found = result([0.5, 0.1, np.inf, 0.25, 0.75, 0.3], [4, 2, 4, 4, 4, 4])
    outcome, (plan, start, train, test, grid) = run_with(monkeypatch, tmp_path, found)
    # Only candidates that diverged are dropped.
    assert plan.rungs == {2: 6} and plan.hopeless == 7.0
    tried = list(itertools.product((2.0, 1.0), (1e-3, 1e-4, 1e-5)))
    assert list(zip(grid["learning_rate"], grid["weight_decay"], strict=True)) == tried
    assert start["w"].shape == (9, 400) and np.std(start["w"]) == pytest.approx(0.25, rel=0.05)
    assert [len(train.inputs), len(test.inputs)] == [50, 20]
    assert not np.array_equal(train.inputs[:20], test.inputs)
    names = ("learning_rate", "weight_decay", "train_error", "test_error", "relative_norm")
    expected = [  # |W|_F / sqrt(9)
        dict(zip(names, (*tried[place], error / 2, error, place + 1.0), strict=True))
        for place, error in ((0, 0.5), (3, 0.25), (4, 0.75), (5, 0.3))
    ]
    assert outcome.history == expected
    assert outcome.metrics == expected[1] | {"candidates": 6, "candidates_finished": 4}
    # Kept are the errors of the best one, over the deviation of the labels.
    squares = np.square(network({"w": found.params["w"][3]}, test.inputs) - test.targets)[:, 0]
    kept = outcome.outcomes.values.astype(float) * np.std(test.targets)
    np.testing.assert_allclose(np.square(kept), squares, rtol=5e-3, atol=1e-5)


def test_a_search_whose_candidates_all_diverged_has_failed(monkeypatch, tmp_path):
    outcome, _ = run_with(monkeypatch, tmp_path, result([1.0] * 6, [2] * 6))
    assert outcome.status == "failed" and "all 6 candidates diverged" in outcome.message


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"width": 7}, "width"),
        ({"part": "construction", "small_width": 402, "width": 400}, "width"),
        ({"search.check_epoch": 4}, "search.check_epoch"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(fields, field):
    config = set_fields(settings.SETTINGS.default_config(), TINY | fields)
    with pytest.raises(InputError, match=rf"^config\.{field} is .*; accepted: "):
        settings.SETTINGS.validate(config)


HAND = ((9.7, 0.11), (12.5, 0.03), (13.8, 0.01))
FAR = (0.05, 1.0, 45.0)


def reported(workdir, searches, hand=HAND, seeds=(0, 1), **fields):
    """Returns the report on networks by hand and on searches.

    Args:
        workdir: where histories are written.
        searches: by width, (training error, test error, norm) of candidates; none has failed.
        hand: (norm, error) of networks by hand.
        seeds: of the searches, which differ by 0.001 %.
        **fields: of the configuration, whose sweep has two seeds.
    """
    rows = [
        {"part": "construction", "width": 200, "relative_norm": norm, "test_error": error}
        | {"penalty": float(penalty), "id": f"hand{penalty}", "status": "ok"}
        for penalty, (norm, error) in enumerate(hand)
    ]
    names = ("train_error", "test_error", "relative_norm")
    for (width, found), seed in itertools.product(searches.items(), seeds):
        tried = [
            {"learning_rate": 1.0, "weight_decay": 1e-5}
            | dict(zip(names, np.multiply(one, 1 + seed / 1e5).tolist(), strict=True))
            for one in found
        ]
        best = min(tried, key=lambda one: one["test_error"]) if tried else {}
        own = {"part": "search", "width": width, "seed": seed, "id": f"search{width}-{seed}"}
        rows.append(own | best | {"status": "ok" if tried else "failed", "message": ""})
        files.write_run(workdir, own["id"], rows[-1], tried)
    axes = {"sweep.width": tuple(searches), "sweep.penalty": tuple(map(float, range(len(hand))))}
    axes |= {"sweep.hand_width": (200,), "sweep.seed": (0, 1), **fields}
    config = set_fields(settings.SETTINGS.default_config(), axes)
    return make_report(config, pd.DataFrame(rows), workdir)


def statuses(workdir, *found, width=100_000, **options):
    """Returns the claims' statuses: three errors by hand, then SGD's errors and norm."""
    claims = reported(workdir, {width: found}, **options).claims
    order = ("9.7", "12.5", "13.8", "by SGD", "as of no small", "least |W|")
    by_word = {
        next(word for word in reversed(order) if word in claim.item): claim.status
        for claim in claims
    }
    return [by_word[word] for word in order if word in by_word]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(0.11, 0.70, 19.5)], ["shown", "shown", "shown"]),
        ([(0.11, 0.68, 19.5)], ["not shown", "shown", "shown"]),
        ([(0.11, 0.29, 19.3)], ["not shown", "not shown", "not shown"]),
        ([(0.11, 0.31, 19.5), (0.01, 0.5, 19.3)], ["not shown", "shown", "not shown"]),
        ([(0.11, 0.70, 19.5), (0.13, 0.8, 9.0)], ["shown", "shown", "shown"]),
        ([(0.13, 0.70, 19.5), (0.2, 0.8, 19.5)], [UNMET] * 3),
    ],
)
def test_sgd_finds_no_small_error_and_no_norm_below_twice_the_one_by_hand(
    tmp_path, found, expected
):
    assert statuses(tmp_path, *found)[3:] == expected


def test_smaller_searches_than_the_papers_show_nothing_and_refute_by_their_finds(tmp_path):
    assert statuses(tmp_path / "a", FAR, width=200)[3:] == [UNMET] * 3
    assert statuses(tmp_path / "b", (0.05, 0.1, 15.0), width=200)[3:] == ["not shown"] * 3
    assert statuses(tmp_path / "c", FAR, seeds=(0,))[3:] == [UNMET] * 3  # of two that are planned
    one = statuses(tmp_path / "d", FAR, seeds=(0,), **{"sweep.seed": (0,)})
    assert one[3:] == ["shown of one seed"] * 3
    assert len(statuses(tmp_path / "e", FAR, d=12, width=200)) == 5  # no number of the paper
    assert statuses(tmp_path / "f", FAR, hand=HAND[1:])[3:] == ["shown", "shown", UNMET]


@pytest.mark.parametrize(
    ("error", "status"), [(0.1199, "shown"), (0.1201, "not shown"), (None, "not run")]
)
def test_errors_by_hand_are_exact(tmp_path, error, status):
    hand = [(9.3, error)] if error else []
    hand.append((9.2, 0.01))  # not within 5 % of 9.7
    assert statuses(tmp_path, FAR, hand=hand)[0] == status


def test_the_figure_has_the_least_norm_at_most_an_error_times_the_root_of_d(tmp_path):
    runs = {200: [(0.0, 0.5, 30.0), (0.3, 0.6, 20.0), (0.4, 0.9, 25.0)]}
    report = reported(tmp_path, runs, hand=((9.0, 0.2), (11.0, 0.1)), seeds=(0,), d=40)
    figure = report.figures["minimal_norm"]()
    lines = {line.get_label(): np.array(line.get_data()) for line in figure.axes[0].lines}
    plt.close(figure)
    norms = [30.0, 20.0, 20.0]
    for label, errors, expected in (
        ("made by hand, test error", [0.1, 0.2], [11.0, 9.0]),
        ("least by SGD, test error", [0.5, 0.6, 0.9], norms),
        ("least by SGD, train error", [1e-3, 0.3, 0.4], norms),  # 0 is not on a logarithmic axis
    ):
        np.testing.assert_allclose(lines[label], [errors, np.multiply(expected, 40**0.5)])
