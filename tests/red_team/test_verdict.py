"""Verdicts on lazy and rich from made-up accuracies follow their rules, and no further."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.noise_curves import learning_curves, settings, verdict
from lsa_jax.sweep.variants import set_fields

LEARNERS = ("network", "ntk_trained", "rfm", "ntk_infinite", "ntk_finite")


def runs(accuracy, seeds=5, num_test=500, differ=True):
    """Returns accuracies (learner, seed) at 2,000 examples; seeds differ by next to nothing."""
    sizes = {"num_train": 2000, "num_test": num_test, "num_classes": 5, "kernel_distance": 0.8}
    rows = [
        {"learner": learner, "seed": seed, "test_accuracy": accuracy(learner, seed)} | sizes
        for learner in LEARNERS
        for seed in range(seeds)
    ]
    table = pd.DataFrame(rows).assign(status="ok", train_accuracy=1.0)
    return table.assign(test_accuracy=table["test_accuracy"] + 1e-9 * table["seed"] * differ)


def judged(accuracy, **options):
    """Returns the verdict on accuracies (learner, seed)."""
    return verdict.decide(runs(accuracy, **options))


def test_no_verdict_of_rich_where_all_are_equal_constant_exchanged_or_noise():
    rng, spread = np.random.default_rng(0), (-0.08, -0.04, 0.0, 0.05, 0.08)
    for accuracy in (
        lambda learner, seed: 0.8,
        lambda learner, seed: 0.2,
        lambda learner, seed: rng.binomial(500, 0.2) / 500,
        lambda learner, seed: rng.binomial(500, 0.7) / 500,
        lambda learner, seed: 0.5 if learner == "network" else 0.8,
        lambda learner, seed: 0.9 if learner.startswith("ntk_") else 0.5,
        lambda learner, seed: 0.6 + (0.03 + spread[seed]) * (learner in LEARNERS[:2]),
        # Above chance by less than can be told, and above kernels that are below it.
        lambda learner, seed: 0.21 if learner in LEARNERS[:2] else 0.1,
    ):
        assert judged(accuracy).word != "rich"
    # A network that is ahead although its kernel has not learned anything.
    assert judged(lambda learner, seed: 0.7 + 0.2 * (learner == "network")).word == "undecided"
    # A gain of 5 points that 30 test examples cannot tell.
    small = judged(lambda learner, seed: 0.7 + 0.05 * (learner in LEARNERS[:2]), num_test=30)
    assert small.word == "undecided"
    taken = small.sentence.partition("it would take ")[2].split(" and ")
    assert [words.split(" to ")[1] for words in taken] == [
        "decide on the network",
        "decide on the kernel",
    ]
    times = float(taken[0].split()[1])
    assert taken[0].split()[2:6] == ["times", "as", "many", "test"]
    again = judged(
        lambda learner, seed: 0.7 + 0.05 * (learner in LEARNERS[:2]), num_test=int(35 * times)
    )
    assert again.word == "rich"


@pytest.mark.parametrize(
    ("network", "trained", "word"),
    [
        (0.719, 0.7, "lazy"),  # 1.9 points are no gain, 2.1 are undecided without a kernel's
        (0.721, 0.7, "undecided"),
        (0.7, 0.719, "lazy"),
        (0.7, 0.721, "rich kernel, no gain"),
        (0.719, 0.719, "rich"),
        (0.719, 0.69, "lazy"),
        (0.66, 0.721, "rich kernel, no gain"),
    ],
)
def test_two_points_are_no_gain(network, trained, word):
    of = {"network": network, "ntk_trained": trained, "rfm": 0.9, "ntk_infinite": 0.6}
    found = judged(lambda learner, seed: of.get(learner, 0.7), num_test=10**8)
    assert found.word == word
    assert found.claims[0].ours == pytest.approx(100 * (network - 0.7))
    assert found.claims[1].ours == pytest.approx(100 * (trained - 0.7))


def test_verdicts_follow_their_rules_and_name_their_numbers():
    rich = judged(lambda learner, seed: 0.9 if learner in LEARNERS[:2] else 0.7, num_test=2000)
    assert rich.word == "rich"
    assert "the kernel moved by 0.80" in rich.sentence
    assert "the network is +20.0 ± " in rich.sentence and "at 2,000 examples" in rich.sentence
    lazy = judged(lambda learner, seed: 0.7, num_test=10_000)
    assert lazy.word == "lazy" and [c.status for c in lazy.claims] == ["undecided"] * 2
    after = judged(lambda learner, seed: 0.7 + 0.2 * (learner == "ntk_trained"), num_test=10_000)
    assert after.word == "rich kernel, no gain"
    assert "its kernel after training is +20.0 points from the network" in after.sentence
    assert "its kernel after training is +0.0 points from the network" in lazy.sentence
    alone = pd.DataFrame([{"learner": "ntk_infinite", "seed": 0, "test_accuracy": 0.7}])
    alone = alone.assign(num_train=10, num_test=100, num_classes=2)
    assert verdict.decide(alone).sentence == "undecided: no network was trained"


def test_a_verdict_without_learners_says_which():
    """The best fixed kernel is one that was run, however badly it does."""

    def table(*learners):
        accuracies = {"network": 0.7, "ntk_finite": 0.0}
        rows = [
            {"learner": name, "seed": seed, "test_accuracy": accuracies[name] + 1e-9 * seed}
            for name in learners
            for seed in range(3)
        ]
        return pd.DataFrame(rows).assign(num_train=10, num_test=10**6, num_classes=5)

    finite = verdict.decide(table("network", "ntk_finite"))
    assert finite.claims[0].ours == pytest.approx(70) and finite.claims[0].status == "shown"
    assert finite.claims[1].status == "not run"
    assert finite.word == "undecided" and "there is no NTK after training" in finite.sentence
    alone = verdict.decide(table("network"))
    assert "there is no fixed kernel, there is no NTK after training and no finite NTK" in (
        alone.sentence
    )


def test_what_has_no_seed_in_common_is_not_compared():
    """A network without its kernel's seeds, a kernel without a finite accuracy: no number."""
    table = runs(gains)
    network, odd = table["learner"] == "network", table["seed"] % 2 == 1
    apart = verdict.decide(table[network == odd])
    assert apart.word == "undecided" and apart.claims[0].status == "not run"
    assert "network and infinite NTK have no seed in common" in apart.sentence
    for learner, word in (("network", "undecided"), ("ntk_infinite", "undecided")):
        lost = table["test_accuracy"].mask(table["learner"] == learner)
        found = verdict.decide(table.assign(test_accuracy=lost))
        assert found.word == word and f"5 of 20 runs have no result: learner {learner}" in (
            found.sentence
        )
        assert "nan" not in found.sentence


def test_a_kernel_that_learns_with_one_seed_of_several_is_told():
    table = runs(gains)
    one = table[(table["learner"] != "ntk_trained") | (table["seed"] == 0)]
    planned = one[["learner", "seed"]].to_dict("records")
    found = verdict.decide(one, planned)
    assert found.word == "rich" and found.sentence.startswith("rich, in part of one seed: ")
    other = one.assign(seed=one["seed"].mask(one["learner"] == "ntk_trained", 7))
    elsewhere = verdict.decide(other, other[["learner", "seed"]].to_dict("records"))
    assert elsewhere.word == "undecided"
    assert "NTK after training and finite NTK have no seed in common" in elsewhere.sentence


def test_networks_that_have_all_test_images_right_are_told_apart_by_their_losses():
    right = runs(lambda of, seed: 1.0 if of in LEARNERS[:2] else 0.7, num_test=5000, differ=False)
    assert verdict.decide(right).word == "undecided"
    told = verdict.decide(right.assign(test_loss=0.01 + 0.001 * right["seed"]))
    assert told.word == "rich"


def test_what_a_verdict_would_take_parts_the_gain_from_the_nearer_of_the_two_answers_needed():
    """Of 1 point, either a gain above 0 or one below 2: as many examples as tell 1 point apart."""
    found = judged(lambda learner, seed: 0.7 + 0.01 * (learner == "network"), num_test=2000)
    assert found.word == "undecided"
    variance = 0.71 * 0.29 / 2000 + 0.7 * 0.3 / 2000
    times = float(found.sentence.partition("it would take about ")[2].split()[0])
    assert times == pytest.approx((1.96 / 0.01) ** 2 * variance, abs=0.1)


def gains(learner, seed):
    """Returns accuracies of a network and of its kernel that are 20 points above all others."""
    return 0.7 + 0.2 * (learner in LEARNERS[:2]) + 0.001 * seed


@pytest.mark.parametrize("learner", ["network", "ntk_trained", "ntk_infinite", "ntk_finite"])
def test_no_verdict_of_what_failed_runs_leave(learner):
    table = runs(gains)
    assert verdict.decide(table).word == "rich"
    for lost in ([1], [1, 2, 3, 4], [0, 1, 2, 3, 4]):
        gone = (table["learner"] == learner) & table["seed"].isin(lost)
        planned = table[["learner", "seed"]].to_dict("records")
        found = verdict.decide(table[~gone], planned)
        assert found.word == "undecided" and found.sentence.startswith("undecided")
        assert f"{len(lost)} of 20 runs have no result: learner {learner}" in found.sentence
        if len(lost) < 5:  # then the table itself tells that seeds are missing
            assert verdict.decide(table[~gone]).word == "undecided"
    # The feature machine's runs decide nothing, and may be fewer.
    assert verdict.decide(table[table["learner"] != "rfm"]).word == "rich"
    assert verdict.decide(table[(table["learner"] != "rfm") | (table["seed"] > 0)]).word == "rich"


def test_claims_of_what_failed_runs_leave_are_not_shown():
    table = runs(gains)
    for learner, statuses in (
        ("network", ["undecided", "shown"]),
        ("ntk_infinite", ["undecided", "shown"]),
        ("ntk_trained", ["shown", "undecided"]),
        ("ntk_finite", ["undecided", "undecided"]),
    ):
        found = verdict.decide(table[(table["learner"] != learner) | (table["seed"] != 2)])
        assert [claim.status for claim in found.claims] == statuses


def test_no_verdict_of_equal_seeds_or_of_few_test_images():
    equal = judged(lambda learner, seed: gains(learner, 0), differ=False)
    assert equal.word == "undecided" and "all of 5 seeds are equal" in equal.sentence
    assert {claim.status for claim in equal.claims} == {"undecided"}
    lazy = judged(lambda learner, seed: 0.7, num_test=10**6, differ=False)
    assert lazy.word == "undecided" and "all of 5 seeds are equal" in lazy.sentence
    # A fixed kernel without anything random in it is the same in all seeds.
    fixed = judged(lambda of, s: 0.7 if of == "ntk_infinite" else gains(of, s), differ=False)
    assert fixed.word == "rich"
    for count, word in ((29, "undecided"), (30, "rich")):
        few = judged(lambda of, s: gains(of, s) - 0.4 * (of not in LEARNERS[:2]), num_test=count)
        assert few.word == word
        assert ("29 test examples are too few" in few.sentence) == (count == 29)


def test_a_verdict_of_one_seed_says_that_it_is_and_is_the_test_images_alone():
    one = judged(gains, seeds=1)
    assert one.word == "rich" and one.sentence.startswith("rich, of one seed: ")
    assert "of one seed" not in judged(gains, seeds=2).sentence
    for count, word in ((500, "undecided"), (50_000, "rich")):
        small = judged(lambda of, s: 0.7 + 0.05 * (of in LEARNERS[:2]), seeds=1, num_test=count)
        assert small.word == word and small.sentence.startswith(f"{word}, of one seed: ")


def test_the_verdict_is_at_the_largest_number_of_examples_that_was_asked_for():
    fields = {"figure_axis": "num_train", "sweep.learner": LEARNERS, "sweep.noise": (0.0,)}
    fields |= {"sweep.num_train": (1000, 2000), "sweep.seed": (0, 1, 2)}
    config = set_fields(settings.default_config(), fields)
    large = runs(gains, seeds=3)
    whole = pd.concat([large, large.assign(num_train=1000)], ignore_index=True)
    assert learning_curves.make_report(config, whole).claims[0].ours == "rich"
    at_largest = whole["num_train"] == 2000
    fixed = at_largest & (whole["learner"] == "ntk_infinite")
    for lost, of in ((fixed, 3), (at_largest, 12)):
        for left in (whole[~lost], whole.assign(status=whole["status"].mask(lost, "failed"))):
            word, gap, _ = learning_curves.make_report(config, left).claims
            assert word.ours == "undecided" and gap.status != "shown"
            assert f"{of} of 12 runs have no result" in word.note
    # Nor does a run that was asked for at fewer examples count.
    fewer = ~at_largest & (whole["learner"] == "network")
    assert learning_curves.make_report(config, whole[~fewer]).claims[0].ours == "rich"


def test_nothing_is_said_against_a_network_that_was_not_trained_to_the_end():
    """One with half of its training images right is far below its kernels, and would be lazy."""
    below = {"network": 0.405, "ntk_trained": 0.855}
    kernel = {"network": 0.66, "ntk_trained": 0.9}
    rich = {"network": 0.9, "ntk_trained": 0.9}
    for of, word in ((below, "lazy"), (kernel, "rich kernel, no gain"), (rich, "rich")):
        table = runs(lambda learner, seed, of=of: of.get(learner, 0.852), num_test=10_000, seeds=3)
        assert verdict.decide(table.assign(train_accuracy=0.95)).word == word
        short = (table["learner"] == "network") & (table["seed"] == 1)
        fits = table["train_accuracy"].mask(short, 0.949)
        found = verdict.decide(table.assign(train_accuracy=fits))
        assert found.word == (word if word == "rich" else "undecided")
        told = "94.9 % of its training examples right with seed 1" in found.sentence
        assert told == (word != "rich")
        # What a kernel fits does not count, and what is not known counts as not fitted.
        own = table["train_accuracy"].where(table["learner"] == "network")
        assert verdict.decide(table.assign(train_accuracy=own)).word == word
        unknown = verdict.decide(table.drop(columns="train_accuracy"))
        assert unknown.word == found.word


def test_claims_are_not_refuted_by_a_network_that_was_not_trained_to_the_end():
    of = {"network": 0.405, "ntk_trained": 0.9}
    table = runs(lambda learner, seed: of.get(learner, 0.852), num_test=10_000, seeds=3)
    fitted, short = (verdict.decide(table.assign(train_accuracy=fit)).claims for fit in (1, 0.55))
    assert [claim.status for claim in fitted] == ["not shown", "shown"]
    assert [claim.status for claim in short] == ["undecided", "shown"]
    assert "55.0 % of its training examples right" in short[0].note


def test_equal_seeds_of_one_comparison_alone_leave_it_open_and_what_is_decided_takes_no_more():
    """Network and fixed kernels equal in all seeds, the kernel after training not."""
    table = runs(lambda of, seed: 0.9 if of in LEARNERS[:2] else 0.7, differ=False, num_test=5000)
    trained = table["learner"] == "ntk_trained"
    table["test_accuracy"] += 0.001 * table["seed"] * trained
    found = verdict.decide(table)
    assert found.word == "undecided" and "all of 5 seeds are equal" in found.sentence
    assert [claim.status for claim in found.claims] == ["undecided", "shown"]
    assert "it would take" not in found.sentence


def test_a_verdict_s_numbers_have_two_digits_and_its_sentences_name_what_is_compared():
    accuracies = {"network": 0.71234, "ntk_trained": 0.70678}
    table = runs(lambda of, seed: accuracies.get(of, 0.7), num_test=10**8)
    gap, learned = verdict.decide(table).claims
    assert (gap.ours, learned.ours) == (1.23, 0.68)
    assert learned.item == "points of accuracy, NTK after training minus finite NTK"
    short = verdict.decide(
        table.assign(train_accuracy=0.5, test_accuracy=0.4 + 1e-9 * table["seed"])
    )
    assert "right with seed 0 where 95 % are needed: " in short.sentence
