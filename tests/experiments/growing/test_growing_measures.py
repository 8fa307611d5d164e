"""Regret, recall and correlations against the thesis' tables and tables made by hand."""

import numpy as np
import pytest
import scipy.stats

from lsa_jax.experiments.growing import measures

# Karp (thesis, 2024), tables 5.1 and 5.2, by strategy: final loss, regret, relative regret. The
# last final loss is the largest, which the thesis does not print but its relative regrets imply.
PRINTED = [
    (
        (1.7461, 1.7461, 1.7875, 1.7747, 1.7875, 1.79794),
        (0.0, 0.0, 0.0414, 0.0286, 0.0414),
        (0.0, 0.0, 0.7986, 0.5517, 0.7986),
    ),
    (
        (2.1254, 2.1268, 2.1398, 2.1357, 2.1398, 2.14105),
        (0.0, 0.0014, 0.0144, 0.0103, 0.0144),
        (0.0, 0.0895, 0.9202, 0.6582, 0.9202),
    ),
]


@pytest.mark.parametrize(("final", "regret", "relative"), PRINTED)
def test_regrets_are_those_of_tables_5_1_and_5_2(final, regret, relative):
    found = [measures.regret(place, np.array(final)) for place in range(5)]
    np.testing.assert_allclose(found, regret, atol=1e-9)
    found = [measures.relative_regret(place, np.array(final)) for place in range(5)]
    np.testing.assert_allclose(found, relative, atol=2e-3)


LOSSES = np.array([[1.0, 2.0, 3.0, 4.0], [3.0, 1.0, 2.0, 4.0], [3.0, 2.0, 1.0, 4.0]])
FINAL = np.array([0.9, 0.5, 0.1, 0.5])


def test_recall_and_regret_of_a_table_made_by_hand():
    assert measures.recall(LOSSES, FINAL, 1).tolist() == [False, False, True]
    assert measures.recall(LOSSES, FINAL, 2).tolist() == [False, True, True]
    np.testing.assert_allclose(measures.relative_regrets(LOSSES, FINAL), [1.0, 0.5, 0.0])


def test_rank_correlations_are_scipys():
    random = np.random.default_rng(0)
    losses = random.normal(size=(4, 9)).round(1)
    expected = scipy.stats.spearmanr(losses, axis=1).statistic
    np.testing.assert_allclose(measures.self_correlation(losses), expected, atol=1e-12)
    ours = measures.rank_correlations(losses, losses[2])
    np.testing.assert_allclose(ours, expected[2], atol=1e-12)
    assert np.isnan(measures.spearman(np.ones(3), np.arange(3.0)))


def test_averages_leave_step_0_alone_and_are_cut_off_at_the_ends():
    steps, losses = np.array([0, 1, 2, 3, 5]), np.array([[8.0], [1.0], [2.0], [6.0], [4.0]])
    smooth = measures.smooth(losses, steps, 3)[:, 0]
    np.testing.assert_allclose(smooth, [8, 1.5, 3, 4, 4])
    assert measures.final_losses(losses, steps, 0.4).tolist() == [5.0]
    assert measures.lag_losses(losses, steps, 3, 2).tolist() == [4.0]
    assert measures.lag_losses(losses, steps, 0, 2).tolist() == [8.0]
    assert measures.lag_losses(losses, steps, 1, 9).tolist() == [1.0]


@pytest.mark.parametrize("change", [3, 11])
def test_the_step_at_which_the_order_changes_is_found(change):
    random = np.random.default_rng(0)
    early, late = random.permutation(12), random.permutation(12)
    losses = np.stack([early if step < change else late for step in range(30)]).astype(float)
    losses += random.normal(0, 0.5, losses.shape)
    found = measures.phase_transition(measures.self_correlation(losses))
    assert found.place == change and found.late > 0.9 > found.across and found.unexplained < 0.2
    assert measures.is_clear(found)


def test_an_order_that_does_not_change_has_no_phases():
    same = measures.self_correlation(np.tile(np.arange(5.0), (6, 1)))
    assert not measures.is_clear(measures.phase_transition(same))
    assert measures.phase_transition(same).unexplained == 1.0
    assert measures.phase_transition(np.eye(2)) is None and not measures.is_clear(None)


def test_phases_are_told_by_correlations_of_different_steps():
    correlation = np.eye(5)
    for steps, value in ((slice(2), 0.3), (slice(2, 5), 0.6)):
        correlation[steps, steps] += value * (1 - np.eye(len(correlation[steps])))
    found = measures.phase_transition(correlation)
    assert (found.place, found.unexplained) == (2, pytest.approx(0, abs=1e-12))
    assert (found.late, found.across) == (pytest.approx(0.6), 0.0)


@pytest.mark.parametrize("drifts, at_most", [(False, 0), (True, 2)])
def test_smoothed_noise_and_drift_have_no_clear_phases(drifts, at_most):
    random, steps, clear = np.random.default_rng(0), np.arange(0, 101, 2), 0
    for _ in range(20):
        losses = random.normal(size=(len(steps), 12))
        losses = np.cumsum(losses, axis=0) if drifts else losses
        smooth = measures.smooth(losses, steps, 11)
        clear += measures.is_clear(measures.phase_transition(measures.self_correlation(smooth)))
    assert clear <= at_most


def test_the_spread_of_losses_over_their_noise_covers_what_it_was_drawn_with():
    rng = np.random.default_rng(0)
    for ratio, above in ((0.0, 0), (1.0, 5), (3.0, 100)):
        own = rng.normal(size=6)
        own *= ratio / own.std(ddof=1)
        found = [
            measures.spread_over_noise(
                5 + own + 3 * rng.normal(size=(5, 1)) + rng.normal(size=(5, 6))
            )
            for _ in range(100)
        ]
        assert sum(low <= ratio <= high for _, low, high in found) >= 89
        assert abs(sum(low > 1 for _, low, _ in found) - above) <= 5
        if ratio:
            np.testing.assert_allclose(np.mean([one.ratio for one in found]), ratio, rtol=0.15)


def test_the_spread_is_of_scipys_analysis_of_variance_and_knows_no_scale_and_no_seeds_level():
    final = np.array([[2.0, 2.3, 2.9], [2.2, 2.4, 3.3], [2.1, 2.6, 2.8], [2.0, 2.2, 3.0]])
    blocks = np.tile(final.mean(axis=1, keepdims=True), 3)
    alone = scipy.stats.f_oneway(*(final - blocks).T).statistic
    # Seeds take three degrees of freedom from the nine that one-way analysis has.
    expected = np.sqrt((alone * 6 / 9 - 1) / 4)
    spread = measures.spread_over_noise(final)
    np.testing.assert_allclose(spread.ratio, expected, rtol=1e-12)
    moved = measures.spread_over_noise(7 * final + np.array([[3.0], [1.0], [-2.0], [0.0]]))
    np.testing.assert_allclose(moved, spread, rtol=1e-6)


@pytest.mark.parametrize("final", [np.ones((5, 6)), np.arange(6.0)[None], np.ones((5, 1))])
def test_losses_without_noise_seeds_or_operators_have_no_spread(final):
    assert np.isnan(measures.spread_over_noise(final)).all()
