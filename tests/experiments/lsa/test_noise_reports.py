"""Reports on updates, learning curves and lazy or rich, from made-up accuracies, by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
from reports import make_report

from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.experiments.lsa.numbers import PUBLISHED
from lsa_jax.sweep.variants import set_fields

ITEM = "conv_rfm/noisy_mnist"
MACHINE, NETWORK = LEARNERS["rfm"].label, LEARNERS["network"].label


def machine(accuracies, **columns):
    """Returns a row a seed of a machine, of accuracies after each update."""
    rows = []
    for seed, values in enumerate(accuracies):
        row = {"id": f"{seed}", "learner": "rfm", "seed": seed, "width_factor": 1, "noise": 0.0}
        row |= {"num_train": 4000, "num_test": 4000, "num_classes": 10, "status": "ok"}
        row |= {"test_accuracy": values[-1], "matrix_seconds": (3.0, 5.0, 30.0)[seed]} | columns
        rows.append(row | {f"test_accuracy_update_{i}": v for i, v in enumerate(values)})
    return pd.DataFrame(rows)


def report(fine, item=ITEM, count=3, **fields):
    given = {"paper_item": item, "sweep.learner": ("rfm",), "sweep.noise": (0.0,)}
    given |= {"figure_axis": "update", "rfm.updates": count}
    given["sweep.seed"] = tuple(sorted(fine["seed"].unique().tolist()))
    config = set_fields(SETTINGS.default_config(), given | fields)
    return make_report(config, fine, Path("nowhere"))


def test_every_update_stands_beside_the_published_one_and_others_at_update_0():
    fine = machine([(0.5, 0.55, 0.6, 0.65), (0.52, 0.57, 0.6, 0.63)])
    network = fine.assign(learner="network", test_accuracy=[0.7, 0.72], status=["ok", "failed"])
    network[[name for name in fine if "update" in name]] = np.nan
    found = report(pd.concat([fine, network]))
    rows = found.tables[0][1].set_index("learner")
    expected = ["51.00 ± 1.41", "56.00 ± 1.41", "60.00 ± 0.00", "64.00 ± 1.41"]
    assert rows.loc[MACHINE].tolist() == expected
    assert rows.loc[NETWORK].tolist() == ["70.00", "", "", ""]  # one of two failed
    assert rows.loc["published"].tolist() == [f"{p:.1f}" for p in PUBLISHED[ITEM].percent]


def curve(learner, accuracies, num_train):
    columns = {"learner": learner, "num_train": num_train, "test_accuracy": accuracies}
    table = pd.DataFrame(columns | {"seed": range(len(accuracies)), "status": "ok"})
    table["id"] = [f"{learner}-{num_train}-{seed}" for seed in table["seed"]]
    return table.assign(num_test=1000, num_classes=10, width_factor=1, noise=0.0)


def curves_report(table, **fields):
    asked = {"figure_axis": "num_train", "sweep.num_train": (100,), "sweep.seed": (0, 1)}
    config = set_fields(SETTINGS.default_config(), asked | fields)
    return make_report(config, table, Path("nowhere"))


def test_a_learning_curve_has_a_column_a_number_of_examples():
    parts = [curve("network", (0.30, 0.32), 2000), curve("network", (0.90, 0.92), 10_000)]
    parts += [curve("ntk_finite", (0.4, 0.42), 10_000), curve("ntk_trained", (0.88, 0.9), 10_000)]
    parts.append(curve("network", (0.0,), 10_000).assign(status="failed", seed=2))
    fine = pd.concat(parts[::-1], ignore_index=True)
    fine.loc[fine["learner"] == "network", "kernel_distance"] = [9.0, 0.25, 0.75, 0.25, 0.25]
    found = curves_report(fine, **{"sweep.num_train": (2000, 10_000)})
    (_, table), (_, measured) = found.tables
    assert list(table) == ["series", "2,000 examples", "10,000 examples"]
    rows = table.set_index("series")
    assert rows.loc[NETWORK].tolist() == ["31.00 ± 1.41", "91.00 ± 1.41"]
    assert rows.loc[LEARNERS["ntk_finite"].label].tolist() == ["", "41.00 ± 1.41"]
    assert [float(cell.split()[0]) for cell in measured["kernel_distance"]] == [0.25, 0.5]
    assert found.notes[0].startswith("Answer: ") and "1,000 test images of 10" in found.notes[1]


NAMES = ("network", "ntk_trained", "rfm", "ntk_infinite", "ntk_finite")


def table_of(accuracy, *, c=0.8, num_test=10_000):
    """Returns a row a learner and seed."""
    rows = [
        {"id": f"{learner}-{seed}", "learner": learner, "seed": seed, "num_train": 2000}
        | {"num_test": num_test, "num_classes": 5, "train_accuracy": 1.0, "status": "ok"}
        | {"test_accuracy": accuracy[learner] + 1e-6 * seed}
        | {"linearization_error": c + 0.01 * seed if learner == "network" else np.nan}
        for learner in NAMES
        for seed in range(3)
    ]
    return pd.DataFrame(rows)


def accuracies(network, trained, fixed=0.7):
    of = {"network": network, "ntk_trained": trained}
    return {learner: of.get(learner, fixed) for learner in NAMES}


def test_the_verdict_is_at_the_largest_number_of_examples_of_the_sweep(tmp_path):
    fields = {"figure_axis": "num_train", "sweep.learner": NAMES, "sweep.noise": (0.0,)}
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
    fields = {"sweep.learner": NAMES, "sweep.noise": (0.0, 1.0), "sweep.seed": (0, 1, 2)}
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
