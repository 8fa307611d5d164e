"""Exponents of stability, fitted and judged: what the thesis says of them follows the numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from stability_rows import draw_pairs_table, fits_of

from lsa_jax.experiments.stability.claims import make_claims
from lsa_jax.experiments.stability.conditions import FITTED, has_fitted
from lsa_jax.experiments.stability.fit_table import fit_all


def test_what_the_thesis_left_open_is_measured_whatever_comes_out(make):
    config, _ = make(report_step=8)
    for exponent, words in ((-0.5, "slower in 1 of 1"), (-1.5, "slower in 0 of 1")):
        pairs = draw_pairs_table((100, 200, 400), {"stability": exponent})
        (claim,) = make_claims(config, fit_all(pairs, 20), pd.DataFrame())
        assert (claim.status, claim.paper) == ("measured", "left open")
        assert words in claim.ours and f"difference {exponent + 1:.2f} (" in claim.ours


@pytest.mark.parametrize(
    ("exponent", "status"),
    [(-0.17, "not shown"), (-0.09, "not shown"), (0.0, "undecided"), (0.02, "shown")],
)
def test_what_the_thesis_calls_decreases_elsewhere_is_one_in_2a(networks, exponent, status):
    config = networks(paper="2a")
    for gap, seen in ((-0.48, status), (0.0, status.replace("shown", "undecided"))):
        fits = fits_of({"stability": exponent, "loss_gap": gap})
        claims = make_claims(config, fits, pd.DataFrame())
        (claim,) = (claim for claim in claims if claim.paper == "does not decrease")
        assert claim.status == (seen if status == "shown" else status)


def test_exponents_are_the_thesis_where_all_of_their_interval_is_near_and_nearer_than_to_others(
    networks,
):
    config = networks(paper="1a")
    for exponent, reach, status in (
        (-0.18, 0.01, "shown"),
        (-0.18, 0.1, "undecided"),
        (-0.12, 0.01, "not shown"),  # nearer to the -0.09 of stability
    ):
        fits = fits_of({"loss_gap": exponent, "stability": -0.09}, reach)
        assert make_claims(config, fits, pd.DataFrame())[0].status == status


def test_exponents_of_few_pairs_are_undecided_and_missing_paths_count_as_not_run(networks):
    config = networks(paper="2b", connectivity__sizes=(12,))
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    claims = make_claims(config, fits, pd.DataFrame())
    found = [claim.status for claim in claims]
    assert found == ["shown"] * 3 + ["undecided"] * 2 + ["not run"] * 2
    assert [claim.note for claim in claims[3:5]] == ["no power law in trial 0"] * 2
    enough = make_claims(config, fits.assign(pairs=40), pd.DataFrame())
    assert [claim.status for claim in enough] == found
    few = make_claims(config, fits.assign(pairs=39), pd.DataFrame())
    assert [claim.status for claim in few[:3]] == ["shown", "undecided", "undecided"]
    assert few[1].note == "it would take 40 pairs a size"


@pytest.mark.parametrize(("exponent", "status"), [(0.1, "shown"), (-0.6, "not shown")])
def test_a_distance_explains_the_gap_where_it_falls_no_more_slowly(networks, exponent, status):
    config = networks(paper="1a")
    fits = fits_of({"loss_gap": -0.35, "distance": exponent, "normalized_distance": exponent})
    found = {claim.item: claim for claim in make_claims(config, fits, pd.DataFrame())}
    for name in ("distance", "normalised distance"):
        assert found[f"exponents of the {name} and of the loss gap"].status == status
        few = make_claims(config, fits.assign(pairs=4), pd.DataFrame())
        assert "shown" not in {claim.status for claim in few[3:]}


GOOD = {"loss_gap": -0.35, "stability": -0.17, "distance": 0.3, "normalized_distance": 0.2}


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"train_accuracy": 0.9899}, "not fitted: a training accuracy of 0.9899 at m = 12"),
        ({"train_accuracy": 0.5}, "not fitted: a training accuracy of 0.5 at m = 12"),
        ({"sizes": 2}, "2 of 3 sizes"),
        ({"pairs": 44}, "44 of 45 pairs of a size"),
        ({"tied": 12.0}, "all pairs of m = 12 are equal"),
    ],
)
def test_what_was_not_run_as_planned_shows_nothing_for_or_against_the_thesis(
    networks, change, note
):
    config = networks(paper="2b", sweep__m=(12, 13, 14), sweep__num_pairs=45)
    for exponents in (GOOD, {name: -3.0 for name in GOOD} | {"loss_gap": -1.0}):
        fits = fits_of(exponents).assign(pairs=45)
        before = make_claims(config, fits, pd.DataFrame())
        assert {claim.status for claim in before} <= {"shown", "not shown"}
        for claim in make_claims(config, fits.assign(**change), pd.DataFrame()):
            assert claim.status == "undecided" and note in claim.note


def test_means_of_single_precision_are_not_below_what_they_are_the_mean_of():
    in_single = np.array([0.992, 0.988], np.float32).mean(dtype=float)
    assert in_single < FITTED and has_fitted(in_single) and not has_fitted(FITTED - 1e-5)


def test_convex_learners_are_not_asked_to_fit(make):
    config, _ = make(paper="fig2_1", report_step=8)
    names = ("loss_gap", "stability", "distance", "error_gap")
    fits = fits_of(dict.fromkeys(names, -1.1) | {"error_gap": -0.82}).assign(learner="logistic")
    claims = make_claims(config, fits.assign(train_accuracy=0.7), pd.DataFrame())
    assert [claim.status for claim in claims] == ["shown"] * 5
    only = make(report_step=8, learner="resnet", sweep__learner=("linearized_resnet", "resnet"))[0]
    both = pd.concat([fits.assign(learner=name, train_accuracy=0.7) for name in only.sweep.learner])
    convex, network = make_claims(only, both, pd.DataFrame())
    assert convex.note == "it would take no number of trials"  # its exponents are equal
    assert network.note == "not fitted: a training accuracy of 0.7 at m = 12"
    assert network.ours.endswith("not decided") and network.status == "measured"


def trials_of(*trials, seeds=(0, 1, 2)):
    return pd.concat([fits_of(b).assign(seed=k) for b, k in zip(trials, seeds, strict=True)])


def test_a_trial_without_a_power_law_is_named_and_not_left_out(networks):
    config = networks(paper="2b", sweep__seed=(0, 1, 2))
    near = [GOOD | {"loss_gap": -0.35 + k / 1000, "stability": -0.17 + k / 500} for k in range(3)]
    before = make_claims(config, trials_of(*near), pd.DataFrame())
    assert [claim.status for claim in before[:3]] == ["shown"] * 3
    lacking = near[:2] + [{name: b for name, b in near[2].items() if name != "stability"}]
    gap, stability, slower, *_ = make_claims(config, trials_of(*lacking), pd.DataFrame())
    assert gap.status == "shown"
    for claim in (stability, slower):
        assert (claim.status, claim.note) == ("undecided", "no power law in trial 2")
    for name in ("stability", "loss_gap"):
        none = [{q: b for q, b in trial.items() if q != name} for trial in near]
        claims = make_claims(config, trials_of(*none), pd.DataFrame())
        of = claims[:3:2] if name == "loss_gap" else claims[1:3]
        for claim in of:
            assert claim.status == "undecided" and "no power law in trial 0, 1, 2" in claim.note


def test_missing_and_equal_trials_show_nothing(networks):
    config = networks(paper="2b", sweep__seed=(0, 1, 2))
    near = [GOOD | {"loss_gap": -0.35 + k / 1000, "stability": -0.17 + k / 500} for k in range(2)]
    for claim in make_claims(config, trials_of(*near, seeds=(0, 2)), pd.DataFrame()):
        assert claim.status == "undecided" and "2 of 3 trials" in claim.note
    for claim in make_claims(config, trials_of(GOOD, GOOD, GOOD), pd.DataFrame()):
        assert claim.status == "undecided" and "trials are equal" in claim.note


def test_one_trial_with_fewer_sizes_or_equal_pairs_is_enough_to_show_nothing(networks):
    config = networks(paper="2b", sweep__m=(12, 13, 14), sweep__seed=(0, 1))
    fits = trials_of(GOOD, {name: b + 0.001 for name, b in GOOD.items()}, seeds=(0, 1))
    for column, values, note in (
        ("sizes", (3, 2), "2 of 3 sizes"),
        ("tied", (14.0, 12.0), "all pairs of m = 12 are equal"),
    ):
        changed = fits.assign(**{column: fits["seed"].map(dict(enumerate(values)))})
        for claim in make_claims(config, changed, pd.DataFrame()):
            assert claim.status == "undecided" and note in claim.note


def test_learners_of_which_nothing_was_run_are_named(make):
    learners = ("linearized_resnet", "resnet")
    config = make(report_step=8, learner="resnet", sweep__learner=learners)[0]
    missing, run = make_claims(config, fits_of(GOOD), pd.DataFrame())
    assert (missing.status, run.status) == ("not run", "measured")
    assert "linearized_resnet" in missing.item


def test_an_undecided_exponent_says_how_many_trials_it_would_take(networks):
    config = networks(paper="2b", sweep__seed=(0, 1, 2))
    gaps = (-0.30, -0.35, -0.40)
    fits = trials_of(*(GOOD | {"loss_gap": b, "stability": b + 0.04} for b in gaps))
    # Between -0.35 -+ 0.09: Student's t of the spread 0.05 reaches so far until there are 4 trials.
    claim = make_claims(config, fits, pd.DataFrame())[0]
    assert (claim.status, claim.note) == ("undecided", "it would take about 4 trials")
    # One trial: as if the half-length 0.1 were 1.96 deviations of trials.
    one = make_claims(networks(paper="2b"), fits_of(GOOD, 0.1), pd.DataFrame())
    needed = next(n for n in range(2, 99) if t.ppf(0.975, n - 1) * 0.1 / 1.96 / np.sqrt(n) < 0.09)
    assert one[0].note == (
        f"it would take about {needed} trials, if they differ as this one's interval says"
    )
    without = fits_of(GOOD).assign(low=np.nan, high=np.nan)
    claim = make_claims(networks(paper="2b"), without, pd.DataFrame())[0]
    assert claim.note == "no interval: subsamples of the pairs have no power law"


@pytest.mark.parametrize(
    ("gap", "stability", "status", "note"),
    [
        (-0.05, -0.05, "shown", ""),
        (0.05, 0.05, "undecided", "the loss gap is not shown to fall"),
        (-0.02, 0.005, "undecided", "the stability is not shown to fall"),
        (-0.02, 0.02, "undecided", "the stability is not shown to fall"),
        (-0.05, -0.3, "not shown", ""),
    ],
)
def test_to_fall_alike_both_have_to_fall(make, gap, stability, status, note):
    config, _ = make(paper="fig2_1", report_step=8)
    fits = fits_of({"loss_gap": gap, "stability": stability}).assign(learner="logistic")
    claim = make_claims(config, fits, pd.DataFrame())[-1]
    assert (claim.paper, claim.status) == ("fall alike", status)
    assert claim.note.startswith(note) and bool(claim.note) == bool(note)


@pytest.mark.parametrize(
    ("gap", "stability", "words"),
    [
        (-1.0, -0.5, "slower in 1 of 1: slower"),
        (-1.0, -1.5, "slower in 0 of 1: faster"),
        (-1.0, -0.995, "slower in 1 of 1: not decided"),
        (0.1, 0.5, "slower in 1 of 1: not decided"),
    ],
)
def test_what_is_left_open_says_what_its_interval_decides(make, gap, stability, words):
    config, _ = make(report_step=8)
    fits = fits_of({"loss_gap": gap, "stability": stability}).assign(learner="logistic")
    (claim,) = make_claims(config, fits, pd.DataFrame())
    assert claim.status == "measured" and claim.ours.endswith(words)
    assert bool(claim.note) == ("not decided" in words)
    (few,) = make_claims(config, fits.assign(pairs=39), pd.DataFrame())
    assert few.ours.endswith("not decided") and "it would take 40 pairs a size" in few.note
