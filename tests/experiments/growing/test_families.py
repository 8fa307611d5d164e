"""Regret, recall, correlations and phases against the thesis' tables and tables made by hand."""

import ml_collections
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.growing import families
from lsa_jax.reporting import files
from lsa_jax.training.growth import Operator, stack_last

CONFIG = ml_collections.ConfigDict(
    {
        "layers": 6,
        "added": 2,
        "dense_steps": 30,
        "smooth_steps": 0,
        "lag_steps": 20,
        "lag_window": 10,
        "final_share": 0.25,
    }
)
STEPS = np.array([0, 10, 20, 30, 400])
# The best after growing, after 20 steps, and in the end are three different operators.
RAW = np.array(
    [[3.0, 1, 2, 4], [3, 1.1, 2, 4], [2, 2.5, 1, 4], [2, 2.5, 1, 3], [0.5, 0.9, 0.7, 0.8]]
)
OPERATORS = [
    Operator(0, 2, "copy"),
    stack_last(6, 2, "random"),
    stack_last(6, 2, "copy"),
    Operator(1, 2, "copy"),
]
# Karp (thesis, 2024), tables 5.1 and 5.2, by strategy: final losses and relative regrets. The last
# final loss is the largest, which the thesis does not print but its relative regrets imply.
PRINTED = [
    ((1.7461, 1.7461, 1.7875, 1.7747, 1.7875, 1.79794), (0.0, 0.0, 0.7986, 0.5517, 0.7986)),
    ((2.1254, 2.1268, 2.1398, 2.1357, 2.1398, 2.14105), (0.0, 0.0895, 0.9202, 0.6582, 0.9202)),
]


@pytest.mark.parametrize(("final", "relative"), PRINTED)
def test_relative_regrets_are_those_of_tables_5_1_and_5_2(final, relative):
    np.testing.assert_allclose(families.relative_regret(np.array(final))[:5], relative, atol=2e-3)
    assert np.isnan(families.relative_regret(np.array([0.5, 0.5, 0.5]))).all()


def test_recall_is_of_the_operator_that_ends_best():
    losses = np.array([[1.0, 2.0, 3.0, 4.0], [3.0, 1.0, 2.0, 4.0], [3.0, 2.0, 1.0, 4.0]])
    final = np.array([0.9, 0.5, 0.1, 0.5])
    assert families.recall(losses, final, 1).tolist() == [False, False, True]
    assert families.recall(losses, final, 2).tolist() == [False, True, True]


def test_rank_correlations_are_scipys():
    losses = np.random.default_rng(0).normal(size=(4, 9)).round(1)
    expected = scipy.stats.spearmanr(losses, axis=1).statistic
    np.testing.assert_allclose(families.self_correlation(losses), expected, atol=1e-12)
    ours = families.rank_correlations(losses, losses[2])
    np.testing.assert_allclose(ours, expected[2], atol=1e-12)
    assert np.isnan(families.spearman(np.ones(3), np.arange(3.0)))


def test_averages_leave_step_0_alone_and_are_cut_off_at_the_ends():
    steps, losses = np.array([0, 1, 2, 3, 5]), np.array([[8.0], [1.0], [2.0], [6.0], [4.0]])
    np.testing.assert_allclose(families.smooth(losses, steps, 3)[:, 0], [8, 1.5, 3, 4, 4])
    assert families.final_losses(losses, steps, 0.4).tolist() == [5.0]
    found = [families.lag_losses(losses, steps, *lag).tolist() for lag in ((3, 2), (0, 2), (1, 9))]
    assert found == [[4.0], [8.0], [1.0]]


@pytest.mark.parametrize("change", [3, 11])
def test_the_step_at_which_the_order_changes_is_found(change):
    random = np.random.default_rng(0)
    early, late = random.permutation(12), random.permutation(12)
    losses = np.stack([early if step < change else late for step in range(30)]).astype(float)
    losses += random.normal(0, 0.5, losses.shape)
    found = families.phase_transition(families.self_correlation(losses))
    assert found.place == change and found.late > 0.9 > found.across and found.unexplained < 0.2
    assert found.clear


def test_phases_are_correlations_of_different_steps_and_a_constant_order_has_none():
    correlation = np.eye(5)
    for steps, value in ((slice(2), 0.3), (slice(2, 5), 0.6)):
        correlation[steps, steps] += value * (1 - np.eye(len(correlation[steps])))
    found = families.phase_transition(correlation)
    assert (found.place, found.unexplained) == (2, pytest.approx(0, abs=1e-12))
    assert (found.late, found.across) == (pytest.approx(0.6), 0.0)
    same = families.phase_transition(families.self_correlation(np.tile(np.arange(5.0), (6, 1))))
    assert same.unexplained == 1.0 and not same.clear
    assert families.phase_transition(np.eye(2)) is None


@pytest.mark.parametrize("drifts, at_most", [(False, 0), (True, 2)])
def test_smoothed_noise_and_drift_have_no_clear_phases(drifts, at_most):
    random, steps, clear = np.random.default_rng(0), np.arange(0, 101, 2), 0
    for _ in range(20):
        losses = random.normal(size=(len(steps), 12))
        losses = np.cumsum(losses, axis=0) if drifts else losses
        smooth = families.smooth(losses, steps, 11)
        clear += families.phase_transition(families.self_correlation(smooth)).clear
    assert clear <= at_most


def test_the_spread_of_losses_over_their_noise_covers_what_it_was_drawn_with():
    rng = np.random.default_rng(0)
    for ratio, above in ((0.0, 0), (1.0, 5), (3.0, 100)):
        own = rng.normal(size=6)
        own *= ratio / own.std(ddof=1)
        noise = 3 * rng.normal(size=(100, 5, 1)) + rng.normal(size=(100, 5, 6))
        found = [families.spread_over_noise(5 + own + drawn) for drawn in noise]
        assert sum(low <= ratio <= high for _, low, high in found) >= 89
        assert abs(sum(low > 1 for _, low, _ in found) - above) <= 5
        if ratio:
            np.testing.assert_allclose(np.mean([one[0] for one in found]), ratio, rtol=0.15)


def test_the_spread_is_of_scipys_analysis_of_variance_whatever_scale_and_seeds_level():
    final = np.array([[2.0, 2.3, 2.9], [2.2, 2.4, 3.3], [2.1, 2.6, 2.8], [2.0, 2.2, 3.0]])
    blocks = np.tile(final.mean(axis=1, keepdims=True), 3)
    alone = scipy.stats.f_oneway(*(final - blocks).T).statistic
    # Seeds take three degrees of freedom from the nine that one-way analysis has.
    spread = families.spread_over_noise(final)
    np.testing.assert_allclose(spread[0], np.sqrt((alone * 6 / 9 - 1) / 4), rtol=1e-12)
    moved = families.spread_over_noise(7 * final + np.array([[3.0], [1.0], [-2.0], [0.0]]))
    np.testing.assert_allclose(moved, spread, rtol=1e-6)
    for nothing in (np.ones((5, 6)), np.arange(6.0)[None], np.ones((5, 1))):
        assert np.isnan(families.spread_over_noise(nothing)).all()


@pytest.fixture
def family(tmp_path):
    """A family of four operators; one of two operators is none."""
    rows = pd.DataFrame(OPERATORS + OPERATORS[:2]).assign(kind="decoder", schedule="cosine")
    rows = rows.assign(base_loss=0.25, seed=[1, 1, 1, 1, 0, 0], items_quiz=7)
    rows = rows.assign(id=[f"run{n}" for n in range(6)], downstream_quiz=np.arange(1, 7) / 10)
    for place, run_id in enumerate(rows["id"]):
        losses = RAW[:, place % 4].tolist()
        history = [{"step": s, "loss": v} for s, v in zip(STEPS.tolist(), losses, strict=True)]
        files.write_run(tmp_path, run_id, {}, history)
    (found,) = families.make_families(CONFIG, rows, tmp_path)
    return found


def test_strategies_take_the_least_loss_of_their_time(family):
    assert family.settings["seed"] == 1 and family.operators == OPERATORS
    np.testing.assert_array_equal((family.lag, family.final), (RAW[2], RAW[-1]))
    costs = families.strategy_costs(CONFIG, family).set_index("strategy")
    finals = {"oracle": 0.5, "lag": 0.7, "lag_0": 0.9, "stack_last": 0.7, "stack_random": 0.9}
    assert costs["final_loss"].to_dict() == finals
    regrets = costs["final_loss"].to_numpy() - 0.5
    np.testing.assert_allclose(costs["regret"], regrets)
    np.testing.assert_allclose(costs["relative_regret"], regrets / 0.4)
    assert (costs["downstream_quiz"]["lag"], costs["items_quiz"]["lag"]) == (0.3, 7)
    numbers = families.describe(CONFIG, family)
    assert numbers["operators"] == 4 and numbers["base_loss"] == 0.25
    assert numbers["picks_random_top"] == 1.0 and numbers["span"] == pytest.approx(0.4)
    for name, losses, ranks in (("initial", RAW[0], [3, 1, 2, 4]), ("lag", RAW[2], [2, 3, 1, 4])):
        pearson = np.corrcoef(losses, RAW[-1])[0, 1]
        spearman = np.corrcoef(ranks, [1, 4, 2, 3])[0, 1]
        np.testing.assert_allclose(numbers[f"{name}_pearson"], pearson)
        np.testing.assert_allclose(numbers[f"{name}_spearman"], spearman)
    # Steps 0 and 10 order alike, 20 and 30 alike; of the two orders squared ranks differ by 6.
    assert numbers["split"] == numbers["transition"] == 20
    found = [numbers[f"split_{name}"] for name in ("late", "across", "unexplained")]
    np.testing.assert_allclose(found, [1.0, 1 - 6 * 6 / (4 * 15), 0.0], atol=1e-12)


def test_early_losses_are_correlated_after_as_many_steps_as_in_the_thesis(family):
    raw = np.array([RAW[0], [3, 1, 2, 4], [1, 1, 4, 2], [1, 2, 3, 4], [4, 3, 2, 1], RAW[-1]], float)
    own = family._replace(results=family.results.assign(kind="encoder"), raw=raw, smoothed=raw)

    def early(*steps, config=CONFIG):
        numbers = families.describe(config, own._replace(steps=np.array([0, 10, *steps])))
        return [numbers[f"early_spearman {k}"] for k in (200, 5000)]

    # After 200 steps the means are 1, 1.5, 3.5, 3: ranks 1 2 4 3, against 1 4 2 3 in the end.
    by_hand = np.corrcoef([1, 2, 4, 3], [1, 4, 2, 3])[0, 1]
    np.testing.assert_allclose(early(195, 200, 300, 400), [by_hand, np.nan])
    after = np.corrcoef([4, 3, 2, 1], [1, 4, 2, 3])[0, 1]
    np.testing.assert_allclose(early(195, 200, 5000, 10_000), [by_hand, after])
    # Of 10,000 steps the final loss of a half is measured from 5,000 on.
    half = ml_collections.ConfigDict(CONFIG.to_dict() | {"final_share": 0.5})
    assert np.isnan(early(195, 200, 5000, 10_000, config=half)[1])


def test_the_lowest_of_equal_losses_is_no_choice(family):
    """By the order in which operators are listed, the first of them would be taken."""
    falls, rises = np.linspace(3, 2, 4), np.linspace(2, 3, 4)

    def described(first, lag):
        raw = np.stack([first, *[falls] * 4])
        own = family._replace(raw=raw, smoothed=raw, lag=lag, final=falls)
        costs = families.strategy_costs(CONFIG, own).set_index("strategy")["relative_regret"]
        return costs.to_dict(), families.describe(CONFIG, own)["picks_random_top"]

    costs, top = described(np.ones(4), np.ones(4))
    assert costs["oracle"] == 0.0 and not {"lag", "lag_0"} & set(costs) and np.isnan(top)
    costs, _ = described(falls, rises)
    assert (costs["lag_0"], costs["lag"]) == (0.0, 1.0)
