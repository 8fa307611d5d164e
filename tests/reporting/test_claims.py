"""Decisions on made-up results whose right answer is known."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.reporting import claims
from lsa_jax.reporting.claims import Claim, decide
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import (
    TAIL,
    Sample,
    Variance,
    binomial_error,
    ends,
    fieller,
    half_length,
    needed,
    share_ends,
    variance,
)
from lsa_jax.reporting.statistics import (
    accuracy,
    highest,
    holds,
    lowest,
    mean_of,
    minus,
    over,
    retained,
    slope,
    times,
    value,
)


def runs_of(learners, *, tests="shared", planned=None, keep=True, **columns):
    """Returns the runs of learners from their outcomes [seeds, examples], by name."""
    rows, kept = [], {}
    for name, outcomes in learners.items():
        for seed, own in enumerate(np.atleast_2d(outcomes)):
            run = f"{name}-{seed}"
            extra = {key: values[name] for key, values in columns.items() if name in values}
            rows.append(
                {"id": run, "learner": name, "seed": seed, "test_accuracy": own.mean()}
                | {"num_test": len(own), "train_accuracy": 1.0, "status": "ok"}
                | extra
            )
            kept[run] = Outcomes(own, "one" if tests == "shared" else f"{seed}")
    points = planned or [{"learner": r["learner"], "seed": r["seed"]} for r in rows]
    return Runs.of(points, pd.DataFrame(rows), kept if keep else {}, fresh=tests == "fresh")


def bits(rng, seeds, examples, rate):
    return (rng.random((seeds, examples)) < rate).astype(float)


GAP = minus(accuracy(learner="network"), accuracy(learner="kernel"))
ABOVE = Claim(item="network minus kernel", statistic=GAP, above=0.0)


@pytest.mark.parametrize(("count", "status"), [(1, "shown of one seed"), (24, "shown")])
def test_what_holds_in_every_run_is_a_share(count, status):
    rows = pd.DataFrame({"seed": range(count), "holds": 1.0, "loss": np.arange(count)})
    claim = Claim(item="holds", statistic=value("holds"), every=True)
    row = decide(claim, Runs.of([], rows))
    assert row.status == status
    assert row.low == pytest.approx(0.025 ** (1 / count), rel=1e-3)
    broken = rows.assign(holds=[0.0] + [1.0] * (count - 1))
    assert decide(claim, Runs.of([], broken)).status == "not shown"


def test_all_of_a_kernels_signal_may_be_lost():
    # Two classes: 0.56 to 0.50 is everything above chance, 0.95 to 0.86 a fifth.
    rng = np.random.default_rng(0)
    rates = {"network": (0.95, 0.86), "kernel": (0.56, 0.50)}
    rows, kept = [], {}
    for name, seed, noise in ((n, s, z) for n in rates for s in range(3) for z in (0, 1)):
        own = bits(rng, 1, 10_000, rates[name][noise])[0]
        run = f"{name}-{seed}-{noise}"
        kept[run] = Outcomes(own, "one")
        rows.append(
            {"id": run, "learner": name, "seed": seed, "noise": noise}
            | {"test_accuracy": own.mean(), "num_test": len(own)}
        )
    runs = Runs.of([], pd.DataFrame(rows), kept)

    def left(learner, chance):
        ends = (accuracy(learner=learner, noise=noise) for noise in (0, 1))
        return retained(*ends, chance=chance)

    corrected = minus(left("network", 50.0), left("kernel", 50.0))
    plain = minus(left("network", 0.0), left("kernel", 0.0))
    assert decide(Claim(item="", statistic=corrected, above=0.0), runs).status == "shown"
    assert decide(Claim(item="", statistic=plain, above=0.0), runs).ours < 5


def test_a_learner_at_chance_has_kept_anything():
    rows = [
        {"seed": seed, "noise": noise, "test_accuracy": 0.5 + 0.3 * noise, "loss": seed + noise}
        for seed in range(3)
        for noise in (0, 1)
    ]
    runs = Runs.of([], pd.DataFrame(rows).assign(num_test=1000, id=""))
    share = retained(*(accuracy(noise=noise) for noise in (0, 1)), chance=50.0)
    for statistic in (share, minus(share, share)):
        assert decide(Claim(item="", statistic=statistic, above=0.0), runs).status == "undecided"


def test_what_is_not_known_to_fit_has_not_fitted():
    rows = pd.DataFrame({"seed": [0, 1], "loss": [1.0, 2.0], "train_accuracy": [1.0, np.nan]})
    claim = Claim(item="", statistic=value("loss"), above=-99.0, conditions=(claims.fitted("one"),))
    assert decide(claim, Runs.of([], rows)).status == "condition not met"
    assert decide(claim, Runs.of([], rows.assign(train_accuracy=0.99))).status == "shown"


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("spread", [0.1, 1.0])
@pytest.mark.parametrize("error", [0.1, 1.0])
@pytest.mark.parametrize("distance", [0.15, 0.7])
def test_the_seeds_and_test_examples_that_it_would_take_suffice(seeds, spread, error, distance):
    values = pd.Series(spread * np.linspace(-1, 1, seeds)) if seeds > 1 else pd.Series([0.0])
    sample = Sample(values, error=error)
    if half_length(variance(sample), seeds, TAIL) < distance:
        return
    words = needed(sample, distance)
    more = re.search(r"about (\d+) seeds", words)
    times = re.search(r"about ([\d.]+) times", words)
    of_seeds, of_examples = variance(sample)
    left = Variance(of_seeds, of_examples / (float(times[1]) if times else 1))
    count = int(more[1]) if more else max(seeds, 2)
    assert seeds == 1 or half_length(left, count, TAIL) < 1.05 * distance
    assert ("2 seeds or more" in words) == (seeds == 1)


def test_a_claim_of_agreement_that_its_runs_cannot_show_is_only_measured():
    rng = np.random.default_rng(0)
    claim = Claim(item="", statistic=accuracy(), paper=90.0, within=0.1, seed_sd=2.0)
    row = decide(claim, runs_of({"one": bits(rng, 3, 1000, 0.9)}))
    assert row.status == "measured" and "cannot" in row.note


@pytest.mark.parametrize("spread", [0.1, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("off", [0.0, 0.9, 1.1, 40.0])
def test_an_interval_as_wide_as_the_range_shows_no_agreement_but_may_refute_it(spread, off):
    errors = 5.0 + off + spread * np.linspace(-1, 1, 5)
    rows = pd.DataFrame({"seed": range(5), "error": errors})
    claim = Claim(item="", statistic=value("error"), paper=5.0, within=1.0, seed_sd=0.01)
    row = decide(claim, Runs.of([], rows))
    if row.low >= 6.0:
        assert row.status == "not shown"
    elif row.low > 4.0 and row.high < 6.0:
        assert row.status == "shown"
    else:
        assert row.status == ("measured" if row.high - row.low >= 2.0 else "undecided")


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    ("spoil", "word"), [("lost", "no test_accuracy"), ("equal", "equal"), ("few", "test examples")]
)
def test_unsound_runs_show_nothing(spoil, word, keep):
    rng = np.random.default_rng(0)
    size = 20 if spoil == "few" else 2000
    seeds = 1 if spoil == "equal" else 3
    learners = {"network": bits(rng, seeds, size, 0.99), "kernel": bits(rng, seeds, size, 0.2)}
    if spoil == "equal":
        learners = {name: np.repeat(own, 3, axis=0) for name, own in learners.items()}
    planned = [{"learner": n, "seed": s} for n in learners for s in range(3 + (spoil == "lost"))]
    row = decide(ABOVE, runs_of(learners, planned=planned, keep=keep))
    assert row.status == "condition not met" and word in row.condition


@pytest.mark.parametrize("tests", ["shared", "fresh"])
def test_intervals_cover_the_truth(tests):
    """Seeds and examples both vary: 95 % of the intervals have the mean over both."""
    rng, covered, repeats, gap = np.random.default_rng(0), 0, 200, 0.02
    for _ in range(repeats):
        hard = rng.normal(size=(1 if tests == "shared" else 4, 400)) * 0.15
        own = rng.normal(size=(4, 1)) * 0.02
        first, second = (
            (rng.random((4, 400)) < 0.6 + shift + hard + moved).astype(float)
            for shift, moved in ((gap, own), (0.0, 0.0))
        )
        sample = GAP(runs_of({"network": first, "kernel": second}, tests=tests))
        low, high = ends(sample)
        covered += low <= 100 * gap <= high
    assert 0.92 <= covered / repeats <= 0.99


def test_seeds_with_test_sets_of_their_own_have_students_interval():
    rng = np.random.default_rng(0)
    values = pd.Series(rng.normal(size=6))
    found = ends(Sample(values, shared=False, error=100.0))
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(("spread", "status"), [(0.001, "shown"), (0.1, "undecided")])
def test_all_are_below_a_number_if_the_interval_of_the_highest_is(spread, status):
    """The mean of one may be highest, and the interval of another reach further."""
    noise = np.array([-1.0, 0.0, 1.0])
    rows = pd.DataFrame(
        {"seed": seed, "kind": kind, "loss": mean + scale * noise[seed]}
        for kind, mean, scale in (("a", 0.9, 0.001), ("b", 0.85, spread))
        for seed in range(3)
    )
    kinds = [value("loss", kind=kind) for kind in "ab"]
    claim = Claim(item="", statistic=highest(kinds), below=0.95)
    mirrored = Claim(item="", statistic=lowest(kinds), above=-0.95)
    row = decide(claim, Runs.of([], rows))
    assert (row.ours, row.status) == (0.9, status)
    row = decide(mirrored, Runs.of([], rows.assign(loss=-rows["loss"])))
    assert (row.ours, row.status) == (-0.9, status)


@pytest.mark.parametrize(("factor", "plus"), [(0.5, 0.0), (-1.0, 3.0)])
@pytest.mark.parametrize("keep", [True, False])
def test_a_multiple_has_the_interval_times_the_factor(keep, factor, plus):
    rng = np.random.default_rng(0)
    learners = {"network": bits(rng, 3, 500, 0.9), "kernel": bits(rng, 3, 500, 0.5)}
    runs = runs_of(learners, keep=keep)
    for statistic in (GAP, accuracy(learner="kernel"), highest([GAP, accuracy(learner="kernel")])):
        sample, scaled = statistic(runs), times(statistic, factor, plus)(runs)
        np.testing.assert_allclose(scaled.values, factor * sample.values + plus)
        for of in (ends, lambda one: one.bounds):
            np.testing.assert_allclose(of(scaled), sorted(factor * np.array(of(sample)) + plus))


def test_a_difference_of_skew_intervals_has_one_s_low_and_the_other_s_high():
    """Zou and Donner (2008); it has the bounds of differences, and the fewer test examples."""

    def skew(mean, below, above, count):
        sample = Sample(pd.Series([mean]), count=count, bounds=(-1.0, 2 * mean))
        return lambda runs: sample._replace(ends=lambda tail: (mean - below, mean + above))

    found = minus(skew(7.0, 1.0, 2.0, 50), skew(3.0, 3.0, 4.0, 40))(Runs.of([], pd.DataFrame()))
    np.testing.assert_allclose(ends(found), (4 - np.hypot(1, 4), 4 + np.hypot(2, 3)))
    assert found.bounds == (-7.0, 15.0) and found.count == 40


@pytest.mark.parametrize(("above", "near"), [(0.06, False), (0.04, True)])
def test_what_is_left_of_one_seed_has_the_error_of_both_accuracies(above, near):
    """By propagation of errors, or Fieller's less than three errors (0.016) above chance."""
    accuracies, errors = 0.5 + above * np.array([1, 0.5]), []
    rows = pd.DataFrame({"id": "", "seed": 0, "noise": [0, 1], "test_accuracy": accuracies})
    errors = [binomial_error(one, 1000) for one in accuracies]
    start, end = (accuracy(noise=noise) for noise in (0, 1))
    found = ends(retained(start, end, chance=50.0)(Runs.of([], rows.assign(num_test=1000))))
    reach = scipy.stats.norm.isf(TAIL) * np.hypot(errors[1], errors[0] / 2) / above
    expected = (0.5 - reach, 0.5 + reach)
    if near:
        expected = fieller(above / 2, above, errors[1] ** 2, errors[0] ** 2, TAIL)
    np.testing.assert_allclose(found, 100 * np.array(expected))


def test_ratios_are_of_the_same_seed_and_tests_of_numbers_need_one():
    rows = pd.DataFrame(
        {"seed": seed, "kind": kind, "loss": loss}
        for kind, losses in {"a": [1.0, 6.0, 5.0], "b": [2.0, 3.0, np.nan]}.items()
        for seed, loss in enumerate(losses)
    )
    runs = Runs.of(rows[["seed", "kind"]].to_dict("records"), rows)
    ratio = over(value("loss", kind="a"), value("loss", kind="b"))(runs)
    assert ratio.values.to_dict() == {0: 0.5, 1: 2.0} and "seed 2, kind b" in ratio.lost
    small = holds("loss", lambda loss: loss < 3, kind="b")(runs)
    assert small.values.tolist()[:2] == [1.0, 0.0] and np.isnan(small.values.iloc[2])
    below = claims.in_all("small", lambda own: own["loss"] < 6, kind="a")
    assert below.unmet(runs) == "not in 1 of 3 runs" and not below.unmet(runs.where(seed=(0, 2)))


def test_enough_values_are_so_many_different_ones():
    runs = Runs.of([], pd.DataFrame({"seed": range(4), "k": [1, 1, 2, 3], "loss": 1.0}))
    found = [claims.enough("k", least, "").unmet(runs) for least in (2, 3, 4)]
    assert found == ["", "", "3, 4 needed"]


def test_fiellers_interval_is_that_of_simulation():
    # 95 % of ratios of draws around the truth are within intervals made from the draws.
    rng, covered = np.random.default_rng(0), 0
    for _ in range(1000):
        top, bottom = rng.normal([0.5, 1.0], [0.2, 0.3])
        low, high = fieller(top, bottom, 0.04, 0.09, 0.025)
        inside = low <= 0.5 <= high if low <= high else 0.5 <= high or 0.5 >= low
        covered += inside
    assert 0.93 <= covered / 1000 <= 0.98
    assert share_ends(24, 24)[0] == pytest.approx(0.858, abs=1e-3)


def test_combined_statistics_keep_their_scale_and_lose_the_bounds_of_one():
    """Geometric means stay so; a ratio has neither the bounds nor the exactness of its top."""
    rows = [{"id": f"{s}", "seed": s, "a": 2.0 + s, "b": 0.1 + s / 99} for s in range(3)]
    runs = Runs.of([{"seed": s} for s in range(3)], pd.DataFrame(rows))
    ratio = over(value("a", bounds=(0.0, 1.0), exact=True), value("b"))
    row = decide(Claim(item="ratio", statistic=ratio, above=0.0), runs)
    assert row.low < row.ours < row.high
    a, b = value("a", scale="log"), value("b", scale="log")
    row = decide(Claim(item="geometric mean", statistic=mean_of([a, b]), above=0.0), runs)
    table = runs.finished
    assert row.ours == pytest.approx(scipy.stats.gmean([*table["a"], *table["b"]]), rel=1e-3)
    for combined in (
        over(a, b),
        minus(a, value("b")),
        mean_of([a, value("b")]),
        lowest([a, ratio]),
    ):
        with pytest.raises(ValueError, match="scale"):
            combined(runs)


def test_a_slope_without_two_values_of_its_setting_says_so():
    rows = [{"id": f"{s}", "seed": s, "width": 4, "loss": 0.1 + s} for s in range(2)]
    runs = Runs.of([{"seed": s, "width": 4} for s in range(2)], pd.DataFrame(rows))
    row = decide(Claim(item="slope", statistic=slope("loss", "width"), above=0.0), runs)
    assert row.status == "not run" and row.note == "a slope needs two values of width"


def test_seeds_that_differ_in_a_truth_value_alone_are_not_equal():
    rows = [{"id": f"{s}", "seed": s, "found": s > 0} for s in range(3)]
    runs = Runs.of([{"seed": s} for s in range(3)], pd.DataFrame(rows))
    assert not value("found")(runs).equal


def test_what_luck_alone_always_gives_is_undecided():
    """As of two sizes, which are always neighbours."""
    found = Sample(pd.Series(1.0, range(9)))
    every = Claim(item="all", statistic=lambda runs: found, every=True, luck=1.0)
    row = decide(every, Runs.of([], pd.DataFrame({"seed": range(9), "id": range(9)})))
    assert row.status == "undecided" and "no number of runs" in row.note
    # By 1/12 in a run, 1/144 in two.
    one = Claim(item="", statistic=lambda runs: Sample(pd.Series([1.0])), every=True, luck=1 / 12)
    row = decide(one, Runs.of([], pd.DataFrame({"seed": [0], "id": [0]})))
    assert row.status == "undecided" and "2 runs" in row.note


def test_what_is_undecided_needs_what_parts_it_from_the_nearer_end_of_its_range():
    errors = 1 + 2 * np.linspace(-1, 1, 3)
    claim = Claim(item="", statistic=value("error"), above=0.0, below=10.0)
    row = decide(claim, Runs.of([], pd.DataFrame({"seed": range(3), "error": errors})))
    assert row.status == "undecided"
    assert row.note == "it would take " + needed(Sample(pd.Series(errors)), 1.0)


def test_a_learner_is_above_chance_by_more_than_the_error_of_its_accuracy():
    """Of 1,000 examples it is 0.016, so that 0.53 may be chance and 0.54 is not."""
    for right, is_met in ((530, False), (540, True)):
        outcomes = np.arange(1000) < right
        unmet = claims.above_chance("it", learner="one").unmet(runs_of({"one": outcomes * 1.0}))
        assert (unmet == "") == is_met


@pytest.mark.parametrize(
    "wrong", [{"above": 2.0, "below": 1.0}, {"every": True, "luck": 1.5}, {"above": float("nan")}]
)
def test_a_claim_that_nothing_could_show_is_refused(wrong):
    with pytest.raises(ValueError, match="accepted"):
        Claim(item="none", statistic=value("loss"), **wrong)


def test_holms_correction_is_over_the_primary_claims():
    def corrected(*p_values, status="shown"):
        rows = [claims.Row("", "", 1.0, None, "shown", p=p, primary=True) for p in p_values]
        rows[0] = rows[0]._replace(status=status)
        rows.append(claims.Row("", "", 1.0, None, "shown", p=1e-9))
        return [row.holm for row in claims.decide_all(rows, Runs.of([], pd.DataFrame()))]

    # The smallest of three is held to a third of 2.5 %, the next to a half, in any order.
    assert corrected(0.02, 0.004, 0.011) == [True, True, True, None]
    assert corrected(0.02, 0.004, 0.024) == [False, True, False, None]
    assert corrected(0.004, 0.011, status="shown of one seed") == [False, True, None]


def test_an_exception_refutes_without_a_condition_that_is_for_showing():
    never = claims.Condition("", lambda runs: "never")
    statistic = value("holds")
    for exceptions, status in ((0, "condition not met"), (1, "not shown")):
        holds = [0.0] * exceptions + [1.0] * (3 - exceptions)
        rows = pd.DataFrame({"seed": range(3), "holds": holds, "loss": [1.0, 2.0, 3.0]})
        claim = Claim("", statistic, every=True, conditions=(never,), refutable=True)
        assert decide(claim, Runs.of([], rows)).status == status


@pytest.mark.parametrize(
    "statistic", [value("losss"), accuracy("test_acuracy"), value("loss", learnr="ntk")]
)
def test_a_misspelt_column_or_setting_is_an_error_and_not_a_claim_that_was_not_run(statistic):
    rows = pd.DataFrame({"id": ["0"], "seed": [0], "loss": [0.5], "learner": ["ntk"]})
    with pytest.raises(ValueError, match="runs have no"):
        decide(Claim(item="", statistic=statistic), Runs.of([{"seed": 0}], rows))
    row = decide(Claim(item="", statistic=value("losss")), Runs.of([{"seed": 0}], rows[:0]))
    assert row.status == "not run"


@pytest.mark.parametrize("size", [1.0, 1e-3, 2.3e-6])
def test_a_number_lies_in_its_interval_whatever_its_size(size):
    rows = pd.DataFrame({"seed": range(4), "loss": size * np.array([0.99, 1.0, 1.01, 1.0])})
    row = decide(Claim(item="", statistic=value("loss"), above=0.0, digits=2), Runs.of([], rows))
    assert row.low <= row.ours <= row.high


def test_a_fitted_network_beside_a_kernel_that_is_not_has_no_gap():
    rng = np.random.default_rng(0)
    learners = {"network": bits(rng, 3, 2000, 0.9), "kernel": bits(rng, 3, 2000, 0.42)}
    claim = Claim(
        item="gap",
        statistic=GAP,
        above=0.0,
        conditions=(claims.fitted("the kernel", learner="kernel"),),
    )
    row = decide(claim, runs_of(learners, train_accuracy={"kernel": 0.42}))
    assert row.status == "condition not met" and "42" in row.condition
    assert decide(claim, runs_of(learners)).status == "shown"


@pytest.mark.parametrize("tests", ["shared", "fresh"])
def test_one_seed_has_a_status_of_its_own(tests):
    rng = np.random.default_rng(0)
    one = {"network": bits(rng, 1, 2000, 0.9), "kernel": bits(rng, 1, 2000, 0.5)}
    assert decide(ABOVE, runs_of(one, tests=tests)).status == "shown of one seed"


def test_a_true_gap_of_nothing_is_seldom_shown_of_few_seeds():
    rng, shown, repeats = np.random.default_rng(1), 0, 200
    for _ in range(repeats):
        drawn = rng.normal(size=3) * 4.7
        rates = np.clip(0.7 + drawn[:, None] / 100, 0, 1)
        learners = {
            "network": (rng.random((3, 500)) < rates) * 1.0,
            "kernel": bits(rng, 3, 500, 0.7),
        }
        shown += decide(ABOVE, runs_of(learners)).status == "shown"
    assert shown / repeats <= 0.05


def test_pairing_shortens_the_interval_of_learners_that_err_alike():
    rng = np.random.default_rng(0)
    first = bits(rng, 3, 2000, 0.8)
    second = np.where(rng.random(first.shape) < 0.98, first, 0.0)
    learners = {"network": first, "kernel": second}
    paired, apart = (np.diff(ends(GAP(runs_of(learners, keep=k))))[0] for k in (True, False))
    assert paired < 0.6 * apart
    row = decide(ABOVE, runs_of(learners))
    assert row.status == "shown" and row.p < 0.025
