"""Lazy or rich in learning curves, on made-up accuracies whose right answer is known."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.noise_curves.report import lazy_or_rich, make_report
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.variants import set_fields

LEARNERS = ("network", "ntk_trained", "rfm", "ntk_infinite", "ntk_finite")


def table_of(accuracy, *, c=0.8, seeds=3, num_test=10_000, spread=1e-6):
    """Returns a row a learner and seed; seeds differ by the spread."""
    rows = [
        {"id": f"{learner}-{seed}", "learner": learner, "seed": seed, "num_train": 2000}
        | {"num_test": num_test, "num_classes": 5, "train_accuracy": 1.0, "status": "ok"}
        | {"test_accuracy": accuracy[learner] + spread * seed}
        | {"linearization_error": c + 0.01 * seed if learner == "network" else np.nan}
        for learner in LEARNERS
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def judged(table, planned=None):
    planned = table[["learner", "seed"]].to_dict("records") if planned is None else planned
    return lazy_or_rich(Runs.of(planned, table))


def accuracies(network, trained, fixed=0.7):
    of = {"network": network, "ntk_trained": trained}
    return {learner: of.get(learner, fixed) for learner in LEARNERS}


@pytest.mark.parametrize(
    ("c", "network", "trained", "word"),
    [
        (0.8, 0.75, 0.75, "rich"),
        (0.03, 0.7, 0.7, "lazy"),
        (0.8, 0.7, 0.75, "rich features without gain"),
        (0.8, 0.5, 0.5, "not lazy, without gain"),
    ],
)
def test_the_answer_is_that_of_the_grades(c, network, trained, word):
    assert judged(table_of(accuracies(network, trained), c=c, num_test=10**7)).word == word


def test_the_kernel_at_the_start_is_taken_at_its_best_ridge():
    """85 % at ridge 1e-3, and 90 % at its best one, as the network and its kernel have."""
    table = table_of(accuracies(0.9, 0.9, 0.85), num_test=2000).assign(ridge=1e-3)
    table = table[table["learner"] != "ntk_infinite"]
    assert judged(table).word == "rich"
    start = table["learner"] == "ntk_finite"
    others = table[start].assign(ridge=1e-1, test_accuracy=0.9 + 1e-4 * table["seed"])
    worse = table[start].assign(ridge=10.0, test_accuracy=0.6)
    assert judged(pd.concat([table, others, worse])).word != "rich"


def test_where_all_are_alike_or_noise_nothing_is_rich():
    rng, words = np.random.default_rng(0), []
    for _ in range(6):
        table = table_of(accuracies(0.7, 0.7), num_test=500)
        table["test_accuracy"] = rng.binomial(500, 0.7, len(table)) / 500
        words.append(judged(table).word)
    assert words.count("rich") <= 1
    # At chance, above kernels that are below it.
    assert judged(table_of(accuracies(0.2, 0.2, 0.1))).word.startswith("undecided")


def test_equal_seeds_and_few_test_examples_decide_nothing():
    equal = table_of(accuracies(0.9, 0.9), spread=0.0)
    equal.loc[equal["learner"] == "network", "linearization_error"] = 0.8
    for table in (equal, table_of(accuracies(0.9, 0.9), num_test=29)):
        assert judged(table).word.startswith("undecided")


@pytest.mark.parametrize("learner", ["network", "ntk_trained", "ntk_infinite", "ntk_finite"])
@pytest.mark.parametrize("seeds", [1, 3])
def test_missing_runs_decide_nothing(learner, seeds):
    table = table_of(accuracies(0.9, 0.9))
    planned = table[["learner", "seed"]].to_dict("records")
    gone = (table["learner"] == learner) & (table["seed"] < seeds)
    found = judged(table[~gone], planned)
    assert found.word.startswith("undecided") and learner in found.sentence
    # The feature machine decides nothing.
    assert judged(table[table["learner"] != "rfm"], planned).word == "rich"


def test_a_network_that_has_not_fitted_is_not_lazy():
    for c, accuracy, word in ((0.8, 0.9, "rich"), (0.03, 0.7, "lazy")):
        table = table_of(accuracies(accuracy, accuracy), c=c, num_test=10**7)
        assert judged(table).word == word
        short = (table["learner"] == "network") & (table["seed"] == 1)
        found = judged(table.assign(train_accuracy=table["train_accuracy"].mask(short, 0.9)))
        assert (found.word == "rich") == (word == "rich") and found.word != "lazy"
        assert found.notes


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
        assert word(whole[~lost]).startswith("undecided")
        failed = whole.assign(status=whole["status"].mask(lost, "failed"))
        assert word(failed).startswith("undecided")
    assert word(whole[largest | ~fixed]) == "rich"
