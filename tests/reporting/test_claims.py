"""Intervals have the closed form or the coverage that they claim, and decide as they should."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.reporting import claims, intervals


def test_an_interval_over_seeds_is_students():
    values = [1.0, 2.0, 4.0, 5.5]
    interval = intervals.over_seeds([*values, np.nan])
    low, high = scipy.stats.t.interval(0.95, 3, np.mean(values), scipy.stats.sem(values))
    np.testing.assert_allclose((interval.low, interval.high), (low, high))
    assert interval.seeds == 4


def test_one_seed_has_the_interval_of_its_test_examples_and_none_without_them():
    interval = intervals.over_seeds([0.5], examples_error=0.1)
    np.testing.assert_allclose((interval.low, interval.high), 0.5 + 0.1 * 1.959964 * np.r_[-1, 1])
    assert np.isnan(intervals.over_seeds([0.5]).low)


def test_the_jackknife_has_the_error_of_a_mean_exactly_and_of_a_ratio_nearly():
    values = np.array([1.0, 2.0, 4.0, 5.5])
    np.testing.assert_allclose(intervals.jackknife(values, np.mean), values)
    rng, found, errors = np.random.default_rng(5), [], []
    for _ in range(800):
        pairs = rng.normal((3.0, 2.0), 0.3, size=(12, 2))
        own = intervals.jackknife(pairs, lambda kept: np.divide(*np.mean(kept, axis=0)))
        found.append(own.mean())
        errors.append(own.std(ddof=1) / 12**0.5)
    np.testing.assert_allclose(found[-1], np.divide(*pairs.mean(axis=0)))
    np.testing.assert_allclose(np.mean(np.square(errors)) ** 0.5, np.std(found), rtol=0.1)
    assert intervals.jackknife([7], lambda kept: 3.0).tolist() == [3.0]
    assert not len(intervals.jackknife([], lambda kept: 3.0))


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_the_interval_covers_where_seeds_share_their_test_examples(seeds):
    rng = np.random.default_rng(0)
    runs, examples_error, of_seeds = 4000, 0.7, 1.0
    shared = examples_error * rng.normal(size=(runs, 1))
    values = shared + of_seeds * rng.normal(size=(runs, seeds))
    found = [intervals.over_seeds(row, examples_error) for row in values]
    covered = np.mean([interval.low <= 0 <= interval.high for interval in found])
    assert 0.935 <= covered <= 0.995


def test_a_binomial_interval_covers_also_next_to_one():
    rng = np.random.default_rng(1)
    for accuracy, examples in ((0.5, 100), (0.9, 500), (0.99, 200)):
        right = rng.binomial(examples, accuracy, size=4000) / examples
        errors = np.array([intervals.binomial_error(share, examples) for share in right])
        assert (abs(right - accuracy) <= 1.96 * errors).mean() >= 0.93
    assert intervals.binomial_error(1.0, 100) > 0
    # Two more of either kind: 5 of 14 for 3 of 10.
    assert intervals.binomial_error(0.3, 10) == pytest.approx((5 / 14 * 9 / 14 / 14) ** 0.5)
    np.testing.assert_allclose(
        intervals.binomial_error(0.3, 10**6), (0.21 / 10**6) ** 0.5, rtol=1e-4
    )


def test_errors_that_two_learners_share_leave_their_difference():
    rng = np.random.default_rng(2)
    examples, runs = 400, 3000
    # Cells: both right, the first alone, the second alone, neither.
    drawn = rng.multinomial(examples, (0.7, 0.12, 0.06, 0.12), size=runs) / examples
    both, first, second = drawn[:, 0], drawn[:, 0] + drawn[:, 1], drawn[:, 0] + drawn[:, 2]
    deviation = (first - second).std()
    paired = intervals.difference_error(first[0], second[0], examples, both[0])
    np.testing.assert_allclose(paired, deviation, rtol=0.15)
    assert intervals.difference_error(first[0], second[0], examples) > 1.2 * paired
    # Of 8 examples one learner alone has 2 right and the other 1, with one more of either kind.
    exact = ((0.3 + 0.2 - (0.3 - 0.2) ** 2) / 10) ** 0.5
    assert intervals.difference_error(0.5, 0.375, 8, 0.25) == pytest.approx(exact)
    assert intervals.difference_error(0.375, 0.5, 8, 0.25) == pytest.approx(exact)


def test_the_error_of_a_ratio_is_that_of_its_linearisation():
    top, bottom, examples = 0.6, 0.8, 2000
    relative = [(1 - share) / share / examples for share in (top, bottom)]
    found = intervals.ratio_error(top, bottom, examples, key=0)
    np.testing.assert_allclose(found, top / bottom * np.sqrt(sum(relative)), rtol=0.1)
    # Of few examples it is that of two binomial numbers of 4 more, half of them right.
    counts, shares = np.arange(9), [5 / 8, 6 / 8]
    weights = np.outer(*(scipy.stats.binom.pmf(counts, 8, share) for share in shares))
    ratios = counts[:, None] / np.maximum(counts, 1)
    exact = (weights * ratios**2).sum() - (weights * ratios).sum() ** 2
    np.testing.assert_allclose(intervals.ratio_error(0.75, 1.0, 4, key=0) ** 2, exact, rtol=0.1)
    assert found == intervals.ratio_error(top, bottom, examples, key=0)
    assert found != intervals.ratio_error(top, bottom, examples, key=1)


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.1, 0.2, "shown"),
        (-0.1, 0.2, "undecided"),
        (0.0, 0.2, "undecided"),
        (-0.2, 0.0, "not shown"),
        (0.0, 0.0, "not shown"),
        (1.0, 1.5, "not shown"),
        (0.5, 1.5, "undecided"),
        (np.nan, np.nan, "undecided"),
    ],
)
def test_the_side_of_the_whole_interval_decides(low, high, status):
    assert claims.decide(low, high, 0.0, 1.0) == status


def test_noise_is_shown_as_rarely_as_its_level_says():
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(300, 4))
    found = [claims.compare("", "", row, above=0.0).status for row in noise]
    assert 0.01 <= found.count("shown") / 300 <= 0.04
    assert 0.92 <= found.count("undecided") / 300 <= 0.98


def test_an_undecided_claim_says_how_many_seeds_it_would_take():
    values = pd.Series([1.0, 3.0, -0.5])
    claim = claims.compare("", "", values, above=0.0)
    assert claim.status == "undecided"
    told = int(claim.note.split("about ")[1].split()[0])

    def low(n):
        return values.mean() - scipy.stats.t.ppf(0.975, n - 1) * values.std() / n**0.5

    assert low(told) > 0 >= low(told - 1)
    one = claims.compare("", "", [1.0], above=0.0)
    assert (one.status, one.note) == ("undecided", "it would take 2 seeds or more")


@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_an_undecided_claim_says_how_many_test_examples_it_would_take(spread):
    values = np.array([2.0 - spread, 2.0, 2.0 + spread])
    note = claims.compare("", "", values, above=0.0, examples_error=5.0).note
    times = float(note.split(" times")[0].split()[-1])
    seeds = int(note.split("about ")[1].split()[0]) if "seeds" in note else 3
    assert (seeds > 3) == (spread == 1.0)

    def low(times):
        reach = scipy.stats.t.ppf(0.975, seeds - 1) * values.std(ddof=1) / seeds**0.5
        return 2 - np.hypot(reach, 1.96 * 5 / times**0.5)

    assert low(times * 1.05) > 0
    assert low(times / (1.5 if spread == 1.0 else 1.15)) < 0
    one = claims.compare("", "", [2.0], above=0.0, examples_error=5.0)
    assert one.note == "it would take 2 seeds or more and 25 times as many test examples"


@pytest.mark.parametrize(("error", "times"), [(2.5, "6.1"), (3.28, "11"), (5.0, "25")])
def test_the_times_as_many_examples_are_what_seeds_leave_of_the_distance(error, times):
    # Three seeds reach 4.303 x 0.1 / sqrt(3) = 0.248 of the 2; (1.96 error)^2 / (2^2 - 0.248^2).
    note = claims.compare("", "", [1.9, 2.0, 2.1], above=0.0, examples_error=error).note
    assert note == f"it would take about {times} times as many test examples"
    far = claims.compare("", "", [-300.0, 300.0, 0.3], above=0.0).note
    assert far == "it would take more than 1000 seeds"


def test_two_seeds_say_what_it_would_take_beside_them():
    found = claims.compare("", "", [1.0, -0.5], above=0.0)
    told = int(found.note.removeprefix("it would take about ").removesuffix(" seeds"))
    spread = 1.5 / 2**0.5
    reach = [scipy.stats.t.ppf(0.975, n - 1) * spread / n**0.5 for n in (told - 1, told)]
    assert reach[0] >= 0.25 > reach[1]
    # They reach 12.706 x 0.1 = 1.27 of the 2; (1.96 x 5)^2 / (2^2 - 1.27^2) = 40.3.
    note = claims.compare("", "", [1.9, 2.1], above=0.0, examples_error=5.0).note
    assert note == "it would take about 41 times as many test examples"


def test_one_seed_is_decided_by_its_test_examples_alone():
    assert claims.compare("", "", [3.77], above=0.0, examples_error=2.3).status == "undecided"
    assert claims.compare("", "", [3.77], above=0.0, examples_error=1.0).status == "shown"
    assert claims.compare("", "", [-3.77], above=0.0, examples_error=1.0).status == "not shown"


def test_what_one_seed_decides_says_that_it_is_one():
    def notes(*values):
        decided = [claims.compare("", "", values, above=at, examples_error=0.01) for at in (0, 2)]
        assert [claim.status for claim in decided] == ["shown", "not shown"]
        return {claim.note for claim in decided}

    assert notes(1.0) == {claims.ONE_SEED}
    assert notes(1.0, 1.01) == {""}
    assert claims.ONE_SEED not in claims.compare("", "", [1.0], above=1.0, examples_error=0.01).note


def test_what_speaks_against_a_claim_keeps_it_from_being_shown_and_nothing_else():
    for values, status in (([2.0, 2.1], "undecided"), ([-2.0, -2.1], "not shown")):
        claim = claims.compare("", "", values, above=0.0, unless="the control failed")
        assert (claim.status, claim.note) == (status, "the control failed")
    assert claims.compare("", "", [], above=0.0).status == "not run"


def test_a_number_agrees_where_all_of_the_interval_is_within_the_margin():
    near = claims.agree("", 80.0, pd.Series([80.5, 80.6, 80.4]), 3.0)
    assert near.status == "shown" and 80 < near.low < near.ours < near.high < 81
    assert claims.agree("", 80.0, pd.Series([79.0, 82.0]), 3.0).status == "undecided"
    assert claims.agree("", 80.0, pd.Series([90.0, 90.1]), 3.0).status == "not shown"


def test_a_margin_keeps_the_numbers_of_a_table_apart():
    assert claims.margin_of(86.4, [76.0, 86.4, 100.0], 7.0) == pytest.approx(5.2)
    assert claims.margin_of(86.4, [76.0, 86.4, 100.0], 3.0) == 3.0
    assert claims.margin_of(52.2, [52.0], 3.0) == 3.0


def test_what_holds_in_every_run_by_luck_takes_enough_runs():
    def status(holds, luck=0.0):
        return claims.every("", "all", holds, "", luck=luck).status

    assert (status([True]), status([True, False]), status([])) == ("shown", "not shown", "not run")
    # (1/2)^5 is 0.031, (1/2)^6 is 0.016.
    assert (status([True] * 5, 0.5), status([True] * 6, 0.5)) == ("undecided", "shown")
    assert "6 seeds" in claims.every("", "all", [True], "", luck=0.5).note
    for holds, status_then in ((True, "undecided"), (False, "not shown")):
        claim = claims.every("", "all", [holds], "", unless="the control failed")
        assert (claim.status, claim.note) == (status_then, "the control failed")
    assert status([True] * 99, luck=1.0) == "undecided"


def test_accuracies_near_chance_are_warned_of():
    assert "near chance" in claims.chance_warning(0.13, 10, 100)
    assert not claims.chance_warning(0.13, 10, 10_000)
    assert claims.is_near_chance(0.4, 2, 10_000)


def test_chance_is_the_best_constant_answer_s_accuracy():
    labels = np.repeat([0, 1], [19, 381])
    for targets in (labels, labels[:, None], np.eye(2)[labels], 2.0 * labels - 1):
        assert claims.largest_class(targets) == 381 / 400
    assert claims.is_near_chance(0.95, 2, 400, 381 / 400)
    assert not claims.is_near_chance(0.95, 2, 400)
    assert not claims.is_near_chance(0.99, 2, 400, 381 / 400)
    rows = pd.DataFrame({"largest_class": [np.nan, 0.25]})
    assert claims.largest_of(rows) == 0.25
    assert claims.largest_of(rows[:1]) is claims.largest_of(rows[[]]) is None
    equal = claims.chance_warning(0.1, 10, 100)
    assert claims.chance_warning(0.1, 10, 100, 0.1) == equal != ""


def test_a_check_that_a_program_starts_is_no_result():
    found = claims.start_up_check([claims.compare("a", "b", [1.0, 1.1], above=0.0)])
    assert [(c.item, c.status, c.ours, c.low) for c in found] == [("a", "not run", "", None)]


def test_cells_leave_out_what_is_missing():
    assert claims.cell(pd.Series([1.0, 2.0, np.nan]), ".1f", ".2g") == "1.5 ± 0.71"
    assert claims.cell(pd.Series([1.0])) == "1.000"
    assert claims.cell(pd.Series([np.nan])) == ""


def test_what_was_not_run_says_why():
    found = claims.not_run("an item", 0.5, note="no seed is there")
    assert found == claims.Claim("an item", 0.5, "", None, "not run", note="no seed is there")
