"""Verdicts on lazy and rich from made-up accuracies follow their rules, and no further."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.noise_curves import verdict

LEARNERS = ("network", "ntk_trained", "rfm", "ntk_infinite", "ntk_finite")


def judged(accuracy, seeds=5, num_test=500):
    """Returns the verdict on accuracies (learner, seed) at the largest number of examples."""
    sizes = {"num_train": 2000, "num_test": num_test, "num_classes": 5, "kernel_distance": 0.8}
    rows = [
        {"learner": learner, "seed": seed, "test_accuracy": accuracy(learner, seed)} | sizes
        for learner in LEARNERS
        for seed in range(seeds)
    ]
    return verdict.decide(pd.DataFrame(rows))


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
    alone = alone.assign(num_train=10, num_test=10, num_classes=2)
    assert verdict.decide(alone).sentence == "undecided: no network was trained"


def test_a_verdict_without_learners_says_which():
    """The best fixed kernel is one that was run, however badly it does."""

    def table(*learners):
        accuracies = {"network": 0.7, "ntk_finite": 0.0}
        rows = [
            {"learner": name, "seed": seed, "test_accuracy": accuracies[name], "num_train": 10}
            for name in learners
            for seed in range(3)
        ]
        return pd.DataFrame(rows).assign(num_test=10**6, num_classes=5)

    finite = verdict.decide(table("network", "ntk_finite"))
    assert finite.claims[0].ours == pytest.approx(70) and finite.claims[0].status == "shown"
    assert finite.claims[1].status == "not run" and "after training" not in finite.sentence
    assert "no fixed kernel was run" in verdict.decide(table("network")).sentence


def test_what_a_verdict_would_take_parts_the_gain_from_the_nearer_of_the_two_answers_needed():
    """Of 1 point, either a gain above 0 or one below 2: as many examples as tell 1 point apart."""
    found = judged(lambda learner, seed: 0.7 + 0.01 * (learner == "network"), num_test=2000)
    assert found.word == "undecided"
    variance = 0.71 * 0.29 / 2000 + 0.7 * 0.3 / 2000
    times = float(found.sentence.partition("it would take about ")[2].split()[0])
    assert times == pytest.approx((1.96 / 0.01) ** 2 * variance, abs=0.1)
