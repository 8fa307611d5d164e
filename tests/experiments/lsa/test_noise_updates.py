"""The reports on learning kernels and on learning curves, from made-up accuracies, by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reports import make_report

from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.experiments.lsa.numbers import PUBLISHED
from lsa_jax.sweep.variants import set_fields

ITEM = "conv_rfm/noisy_mnist"
MACHINE, NETWORK = LEARNERS["rfm"].label, LEARNERS["network"].label
BETTER = [(0.55, 0.6, 0.65, 0.7), (0.56, 0.61, 0.66, 0.71), (0.57, 0.62, 0.67, 0.72)]


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


def statuses(*arguments, **options):
    return [row.status for row in report(*arguments, **options).claims]


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


@pytest.mark.parametrize(
    ("last", "status"), [(0.62, "shown"), (0.594, "undecided"), (0.55, "not shown")]
)
def test_as_good_as_published_means_at_most_two_points_below(last, status):
    """59.4 % are published after three updates, of 4,000 images each."""
    fine = machine([(0.5, 0.55, 0.55, last + shift) for shift in (-1e-4, 0, 1e-4)])
    gain, _, after = report(fine).claims
    assert (gain.paper, gain.status) == ("above 0", "shown")
    assert after.paper.startswith("above 57.4: ") and after.status == status


@pytest.mark.parametrize("item", PUBLISHED)
def test_machines_that_learn_nothing_show_nothing(item):
    rng, count = np.random.default_rng(0), len(PUBLISHED[item].percent)
    classes = PUBLISHED[item].classes
    for level in (1 / classes, 0.9):
        noise = rng.binomial(1000, level, (3, count)) / 1000
        fine = machine(noise, num_train=50, num_test=1000, num_classes=classes)
        assert "shown" not in statuses(fine, item, count - 1)
    falls = machine([np.linspace(0.9, 0.7 + 1e-4 * seed, count) for seed in range(3)])
    assert "shown" not in statuses(falls.assign(num_train=50), item, count - 1)


def test_unsound_or_other_runs_show_nothing_of_the_published():
    assert statuses(machine(BETTER)) == ["shown"] * 3
    unmet = ["condition not met"] * 3
    assert statuses(machine(BETTER[:1] * 3)) == unmet
    assert statuses(machine(BETTER, num_test=29)) == unmet
    assert statuses(machine(BETTER[:2]), **{"sweep.seed": (0, 1, 2)}) == unmet
    assert statuses(machine(BETTER, num_train=4001)) == ["shown", *unmet[:2]]
    assert statuses(machine(BETTER[:1])) == ["shown of one seed"] * 3
    one_update = machine([values[::3] for values in BETTER])
    assert statuses(one_update, count=1) == ["shown", "shown", "not run"]
    none = statuses(machine([values[:1] for values in BETTER]))
    assert none == ["not run", "condition not met", "not run"]
    assert report(machine(BETTER).assign(status="failed")).claims == []


def test_intervals_count_the_test_images_of_both():
    """By Agresti and Coull, of two and four more images: theirs are PUBLISHED's, ours 4,000."""

    def variance(accuracy, images):
        share = (accuracy * images + 2) / (images + 4)
        return share * (1 - share) / (images + 4)

    gain, first, _ = report(machine([(0.551236, 0.56, 0.58, 0.655678)])).claims
    error = 100 * np.sqrt(variance(0.551236, 4000) + variance(0.655678, 4000))
    assert gain.low == pytest.approx(10.44 - 1.96 * error, abs=0.01) and gain.ours == 10.44
    error = 100 * np.sqrt(variance(0.551236, 4000) + variance(0.52, PUBLISHED[ITEM].num_test))
    assert first.high == pytest.approx(55.12 + 1.96 * error, abs=0.01) and first.ours == 55.12
    # Stars are drawn for each seed: their spread is all there is, or one example where it is 0.
    fields = {"data.dataset": "stars"}
    images, stars = (report(machine(BETTER), None, **own).claims[0] for own in ({}, fields))
    assert stars.high - stars.low < 0.2 < images.high - images.low


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
