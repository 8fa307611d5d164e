"""Verdicts, lazy or rich, on made-up accuracies whose right answer is known."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.noise_curves import verdict
from lsa_jax.experiments.lsa.noise_curves.report import make_report
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.variants import set_fields

LEARNERS = ("network", "ntk_trained", "rfm", "ntk_infinite", "ntk_finite")


def table_of(accuracy, *, seeds=3, num_test=10_000, spread=1e-6):
    """Returns a row a learner and seed; seeds differ by the spread."""
    rows = [
        {"id": f"{learner}-{seed}", "learner": learner, "seed": seed, "num_train": 2000}
        | {"num_test": num_test, "num_classes": 5, "train_accuracy": 1.0, "status": "ok"}
        | {"test_accuracy": accuracy[learner] + spread * seed}
        for learner in LEARNERS
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def judged(table, planned=None):
    planned = table[["learner", "seed"]].to_dict("records") if planned is None else planned
    return verdict.decide(Runs.of(planned, table))


def accuracies(network, trained, fixed=0.7):
    of = {"network": network, "ntk_trained": trained}
    return {learner: of.get(learner, fixed) for learner in LEARNERS}


@pytest.mark.parametrize(
    ("network", "trained", "word"),
    [
        (0.719, 0.719, "rich"),
        (0.719, 0.69, "lazy"),
        (0.721, 0.7, "undecided"),
        (0.69, 0.719, "lazy"),
        (0.7, 0.721, "rich kernel, no gain"),
        (0.66, 0.721, "rich kernel, no gain"),
        # 20 points below the kernel at the start is not lazy.
        (0.5, 0.5, "undecided"),
        (0.9, 0.7, "undecided"),
    ],
)
def test_verdicts_follow_their_rules(network, trained, word):
    found = judged(table_of(accuracies(network, trained), num_test=10**8))
    assert found.word == word and found.sentence.startswith(f"{word}: ")
    assert [row.ours for row in found.claims] == pytest.approx(
        [100 * (network - 0.7), 100 * (trained - 0.7)]
    )


def test_the_kernel_at_the_start_is_taken_at_its_best_ridge():
    """85 % at ridge 1e-3, and 90 % at its best one, as the network and its kernel have."""
    table = table_of(accuracies(0.9, 0.9, 0.85), num_test=2000).assign(ridge=1e-3)
    table = table[table["learner"] != "ntk_infinite"]
    assert judged(table).word == "rich"
    start = table["learner"] == "ntk_finite"
    others = table[start].assign(ridge=1e-1, test_accuracy=0.9 + 1e-4 * table["seed"])
    worse = table[start].assign(ridge=10.0, test_accuracy=0.6)
    found = judged(pd.concat([table, others, worse]))
    assert found.word != "rich" and [row.ours for row in found.claims] == pytest.approx(
        [0, 0], abs=0.02
    )


def test_where_all_are_alike_or_noise_nothing_is_rich():
    rng, words = np.random.default_rng(0), []
    for _ in range(6):
        table = table_of(accuracies(0.7, 0.7), num_test=500)
        table["test_accuracy"] = rng.binomial(500, 0.7, len(table)) / 500
        words.append(judged(table).word)
    assert words.count("rich") <= 1
    for level in (0.2, 0.8, 1.0):
        assert judged(table_of(accuracies(level, level, level))).word != "rich"
    # At chance, above kernels that are below it; and a network whose kernel learned nothing.
    assert judged(table_of(accuracies(0.2, 0.2, 0.1))).word == "undecided"


@pytest.mark.parametrize("accuracy", [0.9, 0.7])
@pytest.mark.parametrize("spoil", ["equal", "few"])
def test_equal_seeds_and_few_test_examples_have_no_verdict(accuracy, spoil):
    changes = {"equal": {"spread": 0.0}, "few": {"num_test": 29}}[spoil]
    found = judged(table_of(accuracies(accuracy, accuracy, 0.7), **changes))
    assert found.word == "undecided"
    assert {row.status for row in found.claims} == {"condition not met"}


@pytest.mark.parametrize("learner", ["network", "ntk_trained", "ntk_infinite", "ntk_finite"])
@pytest.mark.parametrize("seeds", [1, 3])
def test_missing_runs_have_no_verdict(learner, seeds):
    table = table_of(accuracies(0.9, 0.9))
    planned = table[["learner", "seed"]].to_dict("records")
    gone = (table["learner"] == learner) & (table["seed"] < seeds)
    found = judged(table[~gone], planned)
    assert found.word == "undecided" and learner in found.sentence
    # The feature machine decides nothing.
    assert judged(table[table["learner"] != "rfm"], planned).word == "rich"


def test_a_network_that_has_not_fitted_is_rich_or_undecided():
    for network, trained, word in ((0.9, 0.9, "rich"), (0.7, 0.7, "lazy"), (0.5, 0.9, None)):
        table = table_of(accuracies(network, trained), num_test=10**6)
        assert judged(table).word == (word or "rich kernel, no gain")
        short = (table["learner"] == "network") & (table["seed"] == 1)
        for fits in (
            table["train_accuracy"].mask(short, 0.98),
            table["train_accuracy"].mask(short),
        ):
            found = judged(table.assign(train_accuracy=fits))
            assert found.word == ("rich" if word == "rich" else "undecided")
            assert "not shown" not in [row.status for row in found.claims]
            assert ("fits its training set" in found.sentence) == (found.word != "rich")


def test_one_seed_is_reported_as_one():
    one = table_of(accuracies(0.9, 0.9), seeds=1)
    assert judged(one).sentence.startswith("rich, of one seed: ")
    small = table_of(accuracies(0.75, 0.75), seeds=1, num_test=300)
    assert judged(small).word == "undecided" and "2 seeds or more" in judged(small).sentence


def test_the_sentence_has_the_numbers_and_the_kernel_s_movement():
    table = table_of(accuracies(0.9, 0.88)).assign(kernel_distance=0.8)
    sentence = judged(table).sentence
    for part in ("moved by 0.80", "infinite NTK, its best fixed kernel: +20.0 ± ", ": +18.0 ± "):
        assert part in sentence
    alone = judged(table[table["learner"] == "ntk_infinite"])
    assert alone.word == "undecided" and "not run" in alone.sentence


def test_the_verdict_is_at_the_largest_number_of_examples_of_the_sweep(tmp_path):
    fields = {"figure_axis": "num_train", "sweep.learner": LEARNERS, "sweep.noise": (0.0,)}
    fields |= {"sweep.num_train": (1000, 2000), "sweep.seed": (0, 1, 2)}
    config = set_fields(SETTINGS.default_config(), fields)
    whole = pd.concat(
        [table_of(accuracies(0.9, 0.9)), table_of(accuracies(0.5, 0.5)).assign(num_train=1000)]
    ).assign(width_factor=1, noise=0.0)

    def word(table):
        return make_report(config, table, tmp_path).claims[0].ours

    largest, fixed = whole["num_train"] == 2000, whole["learner"] == "ntk_infinite"
    assert word(whole) == "rich"
    for lost in (largest, largest & fixed):
        assert word(whole[~lost]) == "undecided"
        assert word(whole.assign(status=whole["status"].mask(lost, "failed"))) == "undecided"
    assert word(whole[largest | ~fixed]) == "rich"
