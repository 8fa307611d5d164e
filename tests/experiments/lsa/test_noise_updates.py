"""The reports on learning kernels and on learning curves, from made-up accuracies, by hand."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.noise_curves import learning_curves, settings, updates
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.numbers import PUBLISHED
from lsa_jax.sweep.variants import set_fields

ITEM = "conv_rfm/noisy_mnist"
MACHINE, NETWORK = LEARNERS["rfm"].label, LEARNERS["network"].label


def machine(accuracies, *, num_train=4000, num_test=4000, seconds=(3.0, 5.0, 30.0)):
    """Returns a row a seed of a machine, of accuracies after each update."""
    rows = []
    for seed, values in enumerate(accuracies):
        row = {"learner": "rfm", "seed": seed, "num_train": num_train, "num_test": num_test}
        row |= {"num_classes": 10, "status": "ok", "matrix_seconds": seconds[seed]}
        rows.append(row | {f"test_accuracy_update_{i}": v for i, v in enumerate(values)})
    return pd.DataFrame(rows)


def report(fine, item=ITEM):
    fields = {"paper_item": item, "sweep.learner": ("rfm",), "sweep.noise": (0.0,)}
    config = set_fields(settings.default_config(), fields | {"sweep.seed": (0, 1)})
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
    fine = machine([np.linspace(0.3, 0.8, 11), np.linspace(0.3, 0.8, 11) + 1e-9])
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


def test_updates_of_lost_or_equal_seeds_and_of_few_test_images_show_nothing():
    fine = [(0.55, 0.6, 0.65, 0.7), (0.56, 0.61, 0.66, 0.71), (0.57, 0.62, 0.67, 0.72)]
    planned = [{"learner": name, "seed": seed} for name in ("rfm", "network") for seed in range(3)]
    found = updates.make_claims(machine(fine), ITEM, planned)
    assert [claim.status for claim in found] == ["shown"] * 3
    for claims, why in (
        (updates.make_claims(machine(fine[:2]), ITEM, planned), "1 of 3 runs have no result"),
        (updates.make_claims(machine(fine[:1] * 3), ITEM, planned), "all of 3 seeds are equal"),
        (
            updates.make_claims(machine([(0.1, 0.2, 0.3, 1.0)] * 3, num_test=29), None, planned),
            "29 test examples are too few",
        ),
    ):
        assert {claim.status for claim in claims} == {"undecided"}
        assert all(why in claim.note for claim in claims)
    gone = updates.make_claims(machine(fine).assign(learner="network"), ITEM, planned)
    assert [claim.status for claim in gone] == ["not run"]
    assert gone[0].note.startswith("3 of 3 runs have no result: learner rfm, seed 0")
    # The report asks its configuration, whose seeds are 0 and 1.
    for seeds, status in ((fine, "shown"), (fine[:1], "undecided")):
        assert {claim.status for claim in report(machine(seeds)).claims} == {status}
    # One seed is decided by its test images, unless more were asked for.
    assert updates.make_claims(machine(fine[:1]), ITEM)[0].status == "shown"


def test_an_accuracy_beside_the_published_one_states_its_margin():
    _, first, after = report(machine([(0.55, 0.6, 0.65, 0.7), (0.56, 0.61, 0.66, 0.71)])).claims
    words = ", no more than 2 points below the published"
    assert first.item.endswith("before any update" + words)
    assert after.item.endswith("after 3 update(s)" + words)
    assert "at least" not in report(machine([(0.55, 0.6, 0.65, 0.7)])).notes[0]


def test_nothing_is_claimed_of_a_machine_without_an_update_or_that_did_not_finish():
    (claim,) = updates.make_claims(machine([(0.5,)] * 3), ITEM)
    assert claim.status == "not run"
    failed = machine([(0.5, 0.6, 0.7, 0.8)]).assign(status="failed")
    assert report(failed).tables == [] and "No run has finished" in report(failed).notes[0]


def test_intervals_count_the_test_images_of_both_and_say_so_of_one_seed():
    """By Agresti and Coull, of two and four more images: theirs are PUBLISHED's, ours 4,000."""

    def variance(accuracy, images):
        share = (accuracy * images + 2) / (images + 4)
        return share * (1 - share) / (images + 4)

    published = PUBLISHED[ITEM]
    gain, first, _ = updates.make_claims(machine([(0.551236, 0.56, 0.58, 0.655678)]), ITEM)
    error = 100 * np.sqrt(variance(0.551236, 4000) + variance(0.655678, 4000))
    assert gain.low == pytest.approx(10.44 - 1.96 * error, abs=0.01) and gain.ours == 10.44
    error = 100 * np.sqrt(variance(0.551236, 4000) + variance(0.52, published.num_test))
    assert first.high == pytest.approx(55.12 + 1.96 * error, abs=0.01) and first.ours == 55.12
    two = machine(
        [(0.5, 0.62346), (0.5, 0.62347)]
    )  # one update: a gain, but nothing that was published
    gain, first, after = updates.make_claims(two, ITEM)
    assert [gain.status, gain.ours, after.status] == ["shown", 12.35, "not run"]
    assert "published after 3 update(s)" in after.note and "before any update" in first.item
    many = [(0.5, 0.55, 0.6, 0.65), (0.51, 0.55, 0.6, 0.66)]
    many = machine(many, num_train=published.num_train + 1)
    assert [c.status for c in updates.make_claims(many, ITEM)] == ["shown", "not run", "not run"]


def test_a_kernel_matrix_takes_the_median_of_the_seeds_times():
    found = report(machine([(0.5, 0.6)] * 3), None)
    (_, times) = found.tables[1]
    assert times.to_dict("list") == {"of": ["ours"], "images": [4000], "seconds": ["5.0"]}
    (_, times) = report(machine([(0.5, 0.6)], seconds=(7.0,)), None).tables[1]
    assert times["seconds"].tolist() == ["7.0"]


def test_the_figure_has_accuracies_by_update_the_others_level_and_the_published():
    fine = machine([(0.5, 0.55, 0.6, 0.65), (0.52, 0.57, 0.6, 0.63)])
    network = fine.assign(learner="network", test_accuracy=[0.7, 0.72])
    figure = report(pd.concat([fine, network])).figures["updates"]()
    (axis,) = figure.axes
    lines = {line.get_label(): np.array(line.get_ydata()) for line in axis.lines}
    plt.close(figure)
    np.testing.assert_allclose(lines[MACHINE], [51, 56, 60, 64])
    np.testing.assert_allclose(lines[NETWORK], [71, 71])
    np.testing.assert_allclose(lines["published"], PUBLISHED[ITEM].percent)


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


def curves_config(**fields):
    """Returns the settings of learning curves; of 100 examples and two seeds."""
    asked = {"figure_axis": "num_train", "sweep.num_train": (100,), "sweep.seed": (0, 1)}
    return set_fields(settings.default_config(), asked | fields)


def test_a_learning_curve_has_a_column_a_number_of_examples_and_the_verdict_of_the_largest():
    parts = [curve("network", (0.30, 0.32), 2000), curve("network", (0.90, 0.92), 10_000)]
    parts += [curve("ntk_infinite", (0.95, 0.96), 2000), curve("ntk_infinite", (0.5, 0.52), 10_000)]
    parts += [curve("ntk_finite", (0.4, 0.42), 10_000), curve("ntk_trained", (0.88, 0.9), 10_000)]
    parts.append(curve("network", (0.0,), 10_000).assign(status="failed", seed=2))
    fine = pd.concat(parts[::-1], ignore_index=True)
    fine.loc[fine["learner"] == "network", "kernel_distance"] = [0.5, 0.25, 0.75, 0.25, 0.25]
    fine.loc[fine["status"] == "failed", "kernel_distance"] = 9.0
    learners = ("network", "ntk_infinite", "ntk_finite", "ntk_trained")
    fields = {"sweep.num_train": (2000, 10_000), "sweep.learner": learners}
    found = learning_curves.make_report(curves_config(**fields), fine)
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
    assert "against the network takes 95 % of its training examples right" in found.notes[1]


def test_a_learning_curve_of_which_nothing_finished_says_so_and_names_the_folder_of_ones_own():
    config = set_fields(
        settings.default_config(), {"data.dataset": "folder", "data.folder": "birds"}
    )
    failed = curve("network", (0.5,), 100).assign(status="failed")
    found = learning_curves.make_report(config, failed)
    assert found.title.endswith(": birds") and found.tables == [] and found.claims == []
    assert found.notes == ["No run has finished."]


def test_one_run_without_measures_is_a_learning_curve_in_percent_of_one_cell():
    config = curves_config()
    found = learning_curves.make_report(config, curve("network", (0.625,), 100))
    ((_, table),) = found.tables
    assert table.to_dict("list") == {"series": [NETWORK], "100 examples": ["62.50"]}
    assert "images of 10 classes" in found.notes[1] and found.title == config.title
    kernel = curve("ntk_infinite", (0.5,), 100).assign(kernel_distance=0.5)  # not the network's
    assert len(learning_curves.make_report(config, kernel).tables) == 1
    parts = [curve("network", (0.5, 0.7), 10), curve("network", (0.8,), 1000)]
    figure = learning_curves.make_report(config, pd.concat(parts)).figures["learning_curves"]()
    (axis,) = figure.axes
    np.testing.assert_allclose(axis.lines[0].get_data(), [[10, 1000], [60, 80]])
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["10", "1,000"]
    plt.close(figure)
