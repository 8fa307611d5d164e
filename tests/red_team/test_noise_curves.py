"""Noise curves of learners that learn nothing, are equal, exchanged or noise show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa import numbers
from lsa_jax.experiments.lsa.noise_curves.claims import HeldOut, make_claims
from lsa_jax.experiments.lsa.noise_curves.series import curves

ITEMS = [*numbers.RETAINED, "lsa/fig6_mnist", "lsa/table_b1"]
TEST = HeldOut(1000, 10)


def claims(item, accuracy, seeds=5, planned=(), test=TEST, left=lambda **point: True, differ=True):
    """Returns the claims of accuracies (learner, noise, seed) on the figure of an item.

    Seeds differ by next to nothing, so that not this alone makes them undecided.
    """
    keys = numbers.TEST_ACCURACY_PERCENT.get(item, {("random_location", 16, 32): None})
    paper = numbers.RETAINED.get(item)
    noises = (0.0, 0.5, 1.0, 2.0) if item == "lsa/table_b1" else (0.0, paper.noise if paper else 1)
    rows = [
        {
            "learner": learner,
            "width_factor": 1,
            "noise": noise,
            "seed": seed,
            "placement": place,
            "image_size": image,
            "background_size": side,
            "test_accuracy": accuracy(learner, noise, seed) + 1e-9 * seed * (noise + 1) * differ,
            "status": "ok",
        }
        for place, image, side in keys
        for learner in ("network", "ntk_finite")
        for noise in noises
        for seed in range(seeds)
    ]
    table = pd.DataFrame([row for row in rows if left(**row)])
    return make_claims(curves(table, planned=planned), item, test=test, planned=planned)


def parted(learner, noise, seed):
    """Returns accuracies of the paper's claim: the network keeps nearly all, the NTK half."""
    kept = 0.97 if learner == "network" else 0.5
    return 0.8 * (kept if noise else 1.0) + 0.001 * seed


def parted_in_noise(learner, noise, seed):
    """Returns accuracies that are equal without noise and 30 points apart with it."""
    return 0.9 - 0.3 * bool(noise) * (learner != "network")


@pytest.mark.parametrize("item", ITEMS)
def test_learners_that_learn_nothing_show_nothing(item, nothing_shown):
    rng = np.random.default_rng(0)
    nothing_shown(claims(item, lambda *point: rng.binomial(1000, 0.1) / 1000))
    nothing_shown(claims(item, lambda *point: 0.1))
    nothing_shown(claims(item, lambda learner, noise, seed: 0.1 * (noise == 0)))
    nothing_shown(claims(item, lambda *point: 1.0))
    # The least of noise, so that what is retained differs a lot.
    nothing_shown(claims(item, lambda learner, noise, seed: 0.08 + 0.04 * (learner == "network")))


@pytest.mark.parametrize("item", ITEMS)
def test_equal_and_exchanged_learners_show_nothing(item, nothing_shown):
    nothing_shown(claims(item, lambda learner, noise, seed: 0.96))
    nothing_shown(claims(item, lambda learner, noise, seed: 0.8 - 0.3 * bool(noise)))
    for exchanged in (True, False):
        found = claims(
            item,
            lambda of, noise, seed, ex=exchanged: (
                0.7 - 0.3 * bool(noise) * ((of == "network") == ex)
            ),
        )
        if exchanged:
            nothing_shown(found)
        else:  # then the network keeps more, as the paper has it
            assert "shown" in {claim.status for claim in found if "minus" in claim.item}


def test_equal_seeds_show_no_agreement_without_noise(nothing_shown):
    equal = claims("lsa/fig6_mnist", parted_in_noise, differ=False)
    at_zero = [claim for claim in equal if "at zero noise" in claim.item]
    nothing_shown(at_zero)
    drawn = claims("lsa/fig6_mnist", parted_in_noise)
    found = [claim.status for claim in drawn if "at zero noise" in claim.item]
    assert len(at_zero) == 1 and found == ["shown"]


@pytest.mark.parametrize("learner", ["network", "ntk_finite"])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_what_failed_runs_leave_shows_nothing(learner, noise, nothing_shown):
    asked = [
        {"learner": of, "noise": at, "seed": seed, "data.placement": "random_location"}
        for of in ("network", "ntk_finite")
        for at in (0.0, 0.5, 1.0)
        for seed in range(5)
    ]
    (whole,) = claims(None, parted, planned=[p for p in asked if p["noise"] != 0.5])
    assert whole.status == "shown"
    (between,) = claims(None, parted, planned=asked)
    assert between.status == "shown"  # of runs at another noise nothing is said

    def left(seed, **point):
        return seed > 0 or (point["learner"], point["noise"]) != (learner, noise)

    lost = claims(None, parted, planned=asked, left=left)
    nothing_shown(lost)
    place = "placement random_location"
    assert f"1 of 10 runs have no result: learner {learner}, noise {noise:g}, seed 0, {place}" in (
        lost[0].note.replace(f"noise {noise},", f"noise {noise:g},")
    )
    # Of a placement of which nothing is left the others say nothing, nor it of them.
    elsewhere = [p | {"data.placement": "fixed_corner"} for p in asked]
    found = claims(None, parted, planned=asked + elsewhere)
    assert [claim.status for claim in found] == ["shown", "not run"]
    assert found[1].item.endswith("(16 on 32, fixed corner)")
    assert "10 of 10 runs have no result" in found[1].note


def asked_at(noises, widths=(1,), **more):
    """Returns the points of a network and of NTKs of some widths, five seeds each."""
    learners = [("network", 1), *(("ntk_finite", width) for width in widths)]
    return [
        {"learner": learner, "width_factor": width, "noise": noise, "seed": seed} | more
        for learner, width in learners
        for noise in noises
        for seed in range(5)
    ]


def test_a_figure_ends_where_it_was_planned_to_and_not_where_its_runs_did():
    planned = asked_at((0.0, 0.5, 1.0))
    (whole,) = claims(None, parted, planned=planned)
    assert whole.status == "shown"
    (claim,) = claims(None, parted, planned=planned, left=lambda noise, **point: noise < 1)
    assert (claim.status, claim.ours) == ("not run", "")
    assert "5 of 10 runs have no result: learner network, width_factor 1, noise 1" in claim.note
    # Nor is the paper's number, which is of noise 1, beside what was run at half of it.
    item, planned = "lsa/table1/cifar_vehicles", asked_at((0.0, 0.5))
    rows = [p | {"test_accuracy": parted(p["learner"], p["noise"], p["seed"])} for p in planned]
    table = curves(pd.DataFrame(rows).assign(status="ok"), planned=asked_at((0.0, 0.5, 1.0)))
    found = make_claims(table, item, test=TEST, planned=asked_at((0.0, 0.5, 1.0)))
    assert {claim.status for claim in found} == {"not run"}
    assert found[0].paper == round(97.25 - 76.37, 2)


def test_the_largest_background_is_the_largest_that_was_planned():
    planned = [
        {"learner": learner, "width_factor": 1, "noise": 1.0, "seed": seed}
        | {"data.image_size": 16, "data.background_size": side}
        for side in (16, 24, 64)
        for learner in ("network", "ntk_finite")
        for seed in range(5)
    ]
    rows = [
        {name.removeprefix("data."): value for name, value in point.items()}
        | {"placement": "random_location", "status": "ok"}
        | {"test_accuracy": parted(point["learner"], point["data.background_size"] > 16, 0.1 * s)}
        for s, point in enumerate(planned)
    ]
    for left, status in ((64, "shown"), (24, "not run")):
        done = pd.DataFrame(rows)
        table = curves(done[done["background_size"] <= left], "background_size", planned)
        (claim,) = make_claims(table, None, "background_size", TEST, planned)
        assert claim.item.startswith("points of accuracy retained on the largest background")
        assert claim.status == status


def test_a_series_of_which_nothing_is_left_is_not_run_and_the_others_keep_their_names():
    planned = asked_at((0.0, 1.0), widths=(1, 4))
    rows = [p | {"test_accuracy": parted(p["learner"], p["noise"], p["seed"])} for p in planned]
    results = pd.DataFrame(rows).assign(status="ok")
    lost = (results["learner"] == "ntk_finite") & (results["width_factor"] == 4)
    for fails in (results.assign(status=results["status"].mask(lost, "failed")), results[~lost]):
        table = curves(fails, planned=planned)
        found = make_claims(table, "lsa/fig6_mnist", test=TEST, planned=planned)
        kept, gone, par, par_gone = found
        assert kept.item.endswith("finite NTK, width 1") and kept.status == "shown"
        assert gone.item.endswith("finite NTK, width 4") and gone.status == "not run"
        assert "10 of 10 runs have no result: learner ntk_finite, width_factor 4" in gone.note
        assert "finite NTK, width 1, within" in par.item and par.status != "not run"
        assert par_gone.status == "not run" and "5 of 5 runs have no result" in par_gone.note


def test_a_kernel_that_learns_and_of_which_nothing_is_left_is_not_measured():
    planned = [p | {"learner": "rfm"} if p["learner"] != "network" else p for p in asked_at((0, 1))]
    rows = [p | {"test_accuracy": parted(p["learner"], p["noise"], p["seed"])} for p in planned]
    results = pd.DataFrame(rows).assign(status="ok")
    for gone, status in (("none", "measured"), ("rfm", "not run"), ("network", "not run")):
        table = curves(results[results["learner"] != gone], planned=planned)
        (claim,) = make_claims(table, None, test=TEST, planned=planned)
        assert claim.status == status and (claim.ours == "") == (status == "not run")


def test_the_papers_numbers_of_equal_seeds_and_few_test_images_show_nothing(nothing_shown):
    item, few = "lsa/table_b1", HeldOut(29, 2)
    percent = next(iter(numbers.TEST_ACCURACY_PERCENT[item].values()))

    def papers(learner, noise, seed):
        return percent[learner][noise] / 100

    for found in (claims(item, papers, differ=False), claims(item, papers, test=few)):
        nothing_shown([claim for claim in found if "minus" not in claim.item])
    nothing_shown(claims(item, parted, test=few))
    assert "29 test examples are too few" in claims(item, parted, test=few)[0].note


def test_equal_seeds_of_both_learners_decide_nothing_and_of_one_do():
    (both,) = claims(None, lambda learner, noise, seed: parted(learner, noise, 0), differ=False)
    assert both.status == "undecided" and "all of 5 seeds are equal" in both.note

    def of_network(learner, noise, seed):
        return parted(learner, noise, seed * (learner == "network"))

    (one,) = claims(None, of_network, differ=False)
    assert one.status == "shown"


def test_seeds_that_have_all_test_images_right_are_not_equal_where_their_losses_are_not():
    rows = [
        {"learner": learner, "width_factor": 1, "noise": noise, "seed": seed, "status": "ok"}
        | {"test_accuracy": 0.6 if noise and learner == "ntk_finite" else 1.0}
        for learner in ("network", "ntk_finite")
        for noise in (0.0, 1.0)
        for seed in range(5)
    ]
    table = pd.DataFrame(rows)
    for loss, status in ((0.01, "undecided"), (0.01 + 0.001 * table["seed"], "shown")):
        (claim,) = make_claims(curves(table.assign(test_loss=loss)), None, test=TEST)
        assert claim.status == status


def test_the_paper_s_numbers_show_nothing_where_the_fixed_kernel_s_runs_are_lost(nothing_shown):
    """Nor the kernel's own, where the network's are: however many of the five are."""
    item = "lsa/table1/cifar_vehicles"
    percent = numbers.RETAINED[item].percent
    planned = asked_at((0.0, numbers.RETAINED[item].noise))

    def papers(learner, noise, seed):
        return 0.8 * (percent[learner] / 100 if noise else 1.0) + 1e-4 * (seed - 2)

    images = HeldOut(10**6, 4)
    whole = claims(item, papers, planned=planned, test=images)
    assert {claim.status for claim in whole} == {"shown"}
    for learner in ("network", "ntk_finite"):
        for lost in (1, 5):

            def left(seed, noise, *, of=learner, few=lost, **point):
                return seed >= few or not noise or point["learner"] != of

            nothing_shown(claims(item, papers, planned=planned, test=images, left=left))


def test_the_paper_s_number_of_a_network_alone_is_decided_by_itself():
    """No fixed kernel is asked for: whether one that learns is beside it does not matter."""
    item = "lsa/table1/cifar_vehicles"
    paper = numbers.RETAINED[item]
    for learners in (("network",), ("network", "rfm")):
        rows = [
            {"learner": learner, "width_factor": 1, "noise": noise, "seed": seed, "status": "ok"}
            | {"test_accuracy": 0.8 * (paper.percent["network"] / 100 if noise else 1)}
            for learner in learners
            for noise in (0.0, paper.noise)
            for seed in range(5)
        ]
        table = pd.DataFrame(rows)
        table["test_accuracy"] += 1e-4 * table["seed"]
        found = make_claims(curves(table), item, test=HeldOut(10**6, 4))
        own = [claim.status for claim in found if "retained at noise" in claim.item]
        assert own[0] == "shown"


@pytest.mark.parametrize("item", ITEMS)
def test_noise_of_the_size_of_the_spread_shows_nothing(item, nothing_shown):
    spread = (-0.08, -0.04, 0.0, 0.05, 0.08)

    def accuracy(learner, noise, seed):
        return 0.6 + (0.01 + spread[seed] if learner == "network" and noise else 0.0)

    nothing_shown(claims(item, accuracy))


def test_the_differences_of_one_seed_that_once_were_shown_are_undecided():
    # The vehicles' 3.77 points with an error of 4.6, CIFAR-10's 8.26 with 7.7.
    for accuracies, examples in (((0.62, 0.59), 200), ((0.26, 0.235), 200)):
        rows = [
            {
                "learner": learner,
                "width_factor": 1,
                "noise": noise,
                "seed": 0,
                "test_accuracy": accuracy if noise else 0.7,
                "status": "ok",
            }
            for learner, accuracy in zip(("network", "ntk_finite"), accuracies, strict=True)
            for noise in (0.0, 1.0)
        ]
        gap = make_claims(curves(pd.DataFrame(rows)), None, test=HeldOut(examples, 4))[0]
        assert gap.ours > 0 and gap.status == "undecided" and "2 seeds" in gap.note


@pytest.mark.parametrize("item", ITEMS)
def test_kernels_that_learn_neither_make_nor_break_a_claim_of_fixed_ones(item):
    """Whatever they keep: all or nothing of it, the statuses of the others are the same."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        [
            {
                "learner": learner,
                "width_factor": 1,
                "noise": noise,
                "seed": seed,
                "placement": "random_location",
                "image_size": 16,
                "background_size": 32,
                "test_accuracy": 0.8
                - 0.3 * bool(noise) * (learner != "network")
                + 0.005 * rng.normal(),
                "status": "ok",
            }
            for learner in ("network", "ntk_finite", "ntk_trained", "rfm")
            for noise in (0.0, 1.0, 2.0)
            for seed in range(5)
        ]
    )
    learned = rows["learner"].isin(("ntk_trained", "rfm"))

    def of_fixed_ones(table):
        found = make_claims(curves(table), item, test=TEST)
        return {claim.item: claim.status for claim in found if claim.status != "measured"}

    alone = of_fixed_ones(rows[~learned])
    assert "shown" in alone.values()
    for kept in (0.1, 0.8, 1.0):
        accuracy = rows["test_accuracy"].where(~learned | (rows["noise"] == 0), kept)
        assert of_fixed_ones(rows.assign(test_accuracy=accuracy)) == alone
