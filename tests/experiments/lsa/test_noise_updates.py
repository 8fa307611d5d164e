"""The reports on learning kernels and on learning curves, from made-up accuracies, by hand."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.noise_curves import learning_curves, settings, updates
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.numbers import PUBLISHED
from lsa_jax.sweep.variants import set_fields

ITEM = "conv_rfm/noisy_mnist"
MACHINE, NETWORK = LEARNERS["rfm"].label, LEARNERS["network"].label


def machine(accuracies, *, num_train=4000, seconds=(3.0, 5.0, 30.0)):
    """Returns a row a seed of a machine, of accuracies after each update."""
    rows = []
    for seed, values in enumerate(accuracies):
        row = {"learner": "rfm", "seed": seed, "num_train": num_train, "num_test": 4000}
        row |= {"num_classes": 10, "status": "ok", "matrix_seconds": seconds[seed]}
        rows.append(row | {f"test_accuracy_update_{i}": v for i, v in enumerate(values)})
    return pd.DataFrame(rows)


def report(fine, item=ITEM):
    config = set_fields(settings.default_config(), {"paper_item": item})
    return updates.make_report(config, fine)


def test_every_update_is_told_beside_the_published_one_and_others_at_update_0():
    fine = machine([(0.5, 0.55, 0.6, 0.65), (0.52, 0.57, 0.6, 0.63)])
    network = fine.assign(learner="network", test_accuracy=[0.7, 0.72], status=["ok", "failed"])
    columns = [name for name in fine if name.startswith("test_accuracy_update_")]
    network[columns] = np.nan
    found = report(pd.concat([fine, network]))
    rows = found.tables[0][1].set_index("learner")
    assert rows.loc[MACHINE].tolist() == [
        "51.00 ± 1.41",
        "56.00 ± 1.41",
        "60.00 ± 0.00",
        "64.00 ± 1.41",
    ]
    assert rows.loc[NETWORK].tolist() == ["70.00", "", "", ""]  # one of two failed
    assert rows.loc["published"].tolist() == [f"{p:.1f}" for p in PUBLISHED[ITEM].percent]
    (_, times) = found.tables[1]
    assert times["seconds"].tolist()[0] == "4.0" and times["images"].tolist() == [4000, 4000]
    assert "4,000 training and 4,000 test images" in found.notes[0]
    assert PUBLISHED[ITEM].source in found.notes[1]


def test_updates_are_ordered_by_their_number_and_not_by_their_letters():
    fine = machine([np.linspace(0.3, 0.8, 11)] * 2)
    fine = fine[sorted(fine.columns)]  # update_10 before update_2
    table = report(fine, None).tables[0][1]
    assert [float(cell.split()[0]) for cell in table.iloc[0, 1:]] == pytest.approx(
        np.linspace(30, 80, 11)
    )
    (gain,) = report(fine, None).claims
    assert float(gain.ours) == pytest.approx(50) and gain.status == "shown"


def test_at_least_the_published_means_no_more_than_two_points_below():
    """59.4 % are published after three updates; 4,000 images tell 1.5 points."""
    statuses = []
    for last in (0.62, 0.594, 0.54):
        fine = machine([(0.55, 0.56, 0.57, last + shift) for shift in (-1e-4, 0, 1e-4)])
        gain, first, after = updates.make_claims(fine, ITEM)
        statuses.append(after.status)
        assert gain.paper == pytest.approx(59.4 - 52.0) and after.paper == 59.4
        assert float(gain.ours) == pytest.approx(100 * (last - 0.55), abs=0.01)
        assert first.paper == 52.0 and first.status == ("undecided" if last == 0.54 else "shown")
    # 0.54 gains nothing, so that it shows nothing of the first either, and is 5.4 points below.
    assert statuses == ["shown", "undecided", "not shown"]


def test_nothing_is_claimed_of_a_machine_without_an_update_or_that_did_not_finish():
    (claim,) = updates.make_claims(machine([(0.5,)] * 3), ITEM)
    assert claim.status == "not run"
    failed = machine([(0.5, 0.6, 0.7, 0.8)]).assign(status="failed")
    assert report(failed).tables == [] and "No run has finished" in report(failed).notes[0]


def curve(learner, accuracies, num_train):
    return pd.DataFrame(
        {
            "learner": learner,
            "seed": range(len(accuracies)),
            "num_train": num_train,
            "test_accuracy": accuracies,
            "num_test": 1000,
            "num_classes": 10,
            "status": "ok",
        }
    )


def test_a_learning_curve_has_a_column_a_number_of_examples_and_the_verdict_of_the_largest():
    parts = [curve("network", (0.30, 0.32), 2000), curve("network", (0.90, 0.92), 10_000)]
    parts += [curve("ntk_infinite", (0.95, 0.96), 2000), curve("ntk_infinite", (0.5, 0.52), 10_000)]
    parts += [curve("ntk_finite", (0.4, 0.42), 10_000), curve("ntk_trained", (0.88, 0.9), 10_000)]
    parts.append(curve("network", (0.0,), 10_000).assign(status="failed", seed=2))
    fine = pd.concat(parts[::-1], ignore_index=True)
    fine.loc[fine["learner"] == "network", "kernel_distance"] = [0.5, 0.25, 0.75, 0.25, 0.25]
    fine.loc[fine["status"] == "failed", "kernel_distance"] = 9.0
    found = learning_curves.make_report(settings.default_config(), fine)
    (_, table), (_, measured) = found.tables
    assert list(table) == ["series", "2,000 examples", "10,000 examples"]
    rows = table.set_index("series")
    assert rows.loc[NETWORK].tolist() == ["31.00 ± 1.41", "91.00 ± 1.41"]
    assert rows.loc[LEARNERS["ntk_finite"].label].tolist() == ["", "41.00 ± 1.41"]
    assert table["series"].tolist()[0] == LEARNERS["ntk_trained"].label  # as they came
    assert measured["num_train"].tolist() == [2000, 10_000]
    assert [float(cell.split()[0]) for cell in measured["kernel_distance"]] == [0.25, 0.5]
    word, *others = found.claims
    # At 10,000 the network gains 40 points, at 2,000 it loses 64.
    assert word.ours == "rich" and "+40.0" in word.note and len(others) == 2
    assert "at 10,000 examples" in found.notes[0] and "1,000 test images of 10" in found.notes[1]


def test_a_learning_curve_of_which_nothing_finished_says_so_and_names_the_folder_of_ones_own():
    config = set_fields(
        settings.default_config(), {"data.dataset": "folder", "data.folder": "birds"}
    )
    failed = curve("network", (0.5,), 100).assign(status="failed")
    found = learning_curves.make_report(config, failed)
    assert found.title.endswith(": birds") and found.tables == [] and found.claims == []
