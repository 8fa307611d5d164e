"""Lazy or rich in learning curves, on made-up accuracies whose right answer is known."""

import numpy as np
import pandas as pd
import pytest
from reports import make_report

from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.reporting.grades import grade
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
    return grade(Runs.of(planned, table))


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
    assert found.word.startswith("undecided") and learner in found.word
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


def test_noise_curves_grade_each_level_by_the_kernels_of_the_network_s_width(tmp_path):
    fields = {"sweep.learner": LEARNERS, "sweep.noise": (0.0, 1.0), "sweep.seed": (0, 1, 2)}
    config = set_fields(SETTINGS.default_config(), fields | {"sweep.ntk_width_factor": (1, 4)})
    data = {name: config.data[name] for name in ("placement", "image_size", "background_size")}
    lazy, rich = accuracies(0.7, 0.7), accuracies(0.9, 0.9)
    levels = [
        table_of(own, c=c, num_test=10**7).assign(noise=noise, width_factor=1, **data)
        for noise, own, c in ((0.0, lazy, 0.03), (1.0, rich, 0.8))
    ]
    wide = [own[own["learner"] == "ntk_finite"] for own in levels]
    wide = [own.assign(width_factor=4, test_accuracy=0.99) for own in wide]
    table = pd.concat(levels + wide, ignore_index=True).assign(state=None)
    table["id"] = table.index.astype(str)

    def graded(table):
        report = make_report(config, table, tmp_path)
        found = dict(report.tables).get("Lazy or rich")
        return report.notes, found

    notes, found = graded(table)
    assert list(found["noise"]) == [0.0, 1.0] and list(found["answer"]) == ["lazy", "rich"]
    assert found["c"][1].startswith("0.81 (") and "+20.0 (" in found["gain (points)"][1]
    assert not any("batch_stats" in note for note in notes)
    network = table["learner"] == "network"
    notes, found = graded(table[network].assign(state="batch_stats"))
    assert any("batch_stats" in note for note in notes)
    assert (found["answer"] == "undecided").all() and "features (points)" not in found
    assert graded(table[~network])[1] is None
