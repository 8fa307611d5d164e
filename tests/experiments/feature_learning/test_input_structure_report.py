"""The report on input structure, from made-up numbers, by hand."""

import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning.input_structure import report, settings
from lsa_jax.sweep.variants import set_fields


@pytest.fixture
def report_of(tmp_path, write_courses):
    """Returns a function of results to their report, of runs that were evaluated once."""
    row = {"step": 0, "test_labelled_part": 0.9, "test_injected_part": 0.6, "test_accuracy": 0.7}

    def made(results):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        write_courses(folder, dict.fromkeys(results["id"], [row]))
        return report.make_report(settings.default_config(), results, folder)

    return made


def students(share, sizes=(9,), injected="gaussian", teacher=5, seeds=2, **columns):
    """Returns runs of students; the parts differ by size and seed."""
    found = pd.DataFrame(
        {"size": size, "seed": seed, "id": f"{injected}{teacher}{share}_{size}_{seed}"}
        | {"test_labelled_part": 0.9 + 0.01 * seed, "test_injected_part": 0.7 - size / 1000}
        | {"test_loss": 1 / size + seed, "train_loss": 0.5 / size, "parameters": 10 * size}
        for size in sizes
        for seed in range(seeds)
    )
    own = {"learner": "student", "teacher_size": teacher, "share": share, "status": "ok"}
    own |= {"injected": injected, "test_accuracy": 0.8, "teacher_accuracy": 0.97}
    own |= {"least_used_class": 0.05, "most_used_class": 0.125}
    return found.assign(**(own | columns))


def direct(sizes=(9,), seeds=2):
    own = students(0.0, sizes, seeds=seeds).assign(learner="direct", test_accuracy=0.95)
    own["id"] = "direct" + own["id"]
    empty = ["teacher_size", "share", "injected", "test_labelled_part", "test_injected_part"]
    return own.drop(columns=empty)


@pytest.mark.parametrize(
    ("dataset", "asked", "images"),
    [("digits", None, 360), ("mnist", None, 10_000), ("svhn", None, 26_032), ("mnist", 500, 500)],
)
def test_claims_count_the_test_images_of_the_data_set(dataset, asked, images):
    fields = {"data.dataset": dataset, "data.num_test": asked}
    assert report._labels(set_fields(settings.default_config(), fields)).test == images


def test_the_table_of_students_has_their_parts_beside_direct_training(report_of):
    other = direct((2,)).assign(test_accuracy=0.5)
    results = pd.concat([students(0.5), students(0.25, teacher=4), direct((9,)), other])
    results = pd.concat([results, students(0.5, (50,), status="failed")])
    made = report_of(results)
    table = made.tables[0][1]
    assert table["teacher"].tolist() == [4, 5] and table["share"].tolist() == ["0.25", "0.5"]
    assert table["student"].tolist() == [9, 9] and "injected" not in table
    assert table.iloc[1].tolist()[3:] == [
        *("90.50 ± 0.71", "69.10 ± 0.00", "80.00 ± 0.00", "95.00 ± 0.00", "97.00 ± 0.00"),
        "0.050 to 0.125",
    ]
    assert "adam with rate 0.001, batches of 200, 12 epochs, R with weight 1 and" in made.notes[0]
    both = pd.concat([students(0.5), students(0.5, injected="tiny_imagenet")])
    made = report_of(both)
    assert made.tables[0][1]["injected"].tolist() == ["gaussian", "tiny_imagenet"]
    assert made.tables[0][1]["trained directly"].tolist() == ["", ""]
    # Runs of a sweep of one kind do not name it.
    assert report_of(students(0.5).drop(columns="injected")).tables


def test_students_on_both_kinds_are_drawn_by_step_and_curves_by_size(tmp_path, write_courses):
    config = settings.default_config()
    results = pd.concat([students(0.5), students(1.0, (2, 9)), direct((2, 9))])
    parts = {"test_labelled_part": 0.9, "test_injected_part": 0.6, "test_accuracy": 0.75}
    write_courses(
        tmp_path, {name: [{"step": step, **parts} for step in (0, 5)] for name in results["id"]}
    )
    made = report.make_report(config, results, tmp_path)
    assert set(made.figures) == {"curves", "sizes"}
    assert len(made.extra_tables["curves"]) == 2 * len(results)
    curves = made.figures["curves"]()
    assert [axis.get_title() for axis in curves.axes] == ["teacher 5, student 9, share 0.5"]
    lines = {line.get_label(): line.get_ydata().tolist() for line in curves.axes[0].get_lines()}
    assert lines == {
        "labelled part": pytest.approx([90, 90]),
        "injected part": pytest.approx([60, 60]),
        "whole mixture": pytest.approx([75, 75]),
        "trained on the data set directly": pytest.approx([75, 75]),
    }
    sizes = made.figures["sizes"]()
    titles = ["on the data set", "teacher of size 5, share 1"]
    assert [axis.get_title() for axis in sizes.axes] == titles
    test, train = sizes.axes[0].containers
    assert test.lines[0].get_ydata().tolist() == pytest.approx([1.0, 1 / 9 + 0.5])
    assert train.lines[0].get_xdata().tolist() == [20, 90]
    heading, table = made.tables[1]
    assert heading == "Test loss by size"
    assert table["size"].tolist() == [2, 9] and table["parameters"].tolist() == [20, 90]
    assert list(table)[2:] == titles
    assert table[titles[0]].tolist() == pytest.approx([1.0, 1 / 9 + 0.5])


def test_numbers_of_parameters_can_be_read(report_of):
    """Over less than two decades, where by default labels between the powers lie on each other."""
    made = report_of(direct((160, 240, 400, 800, 1200, 2000, 4000, 8000)))
    figure = made.figures["sizes"]()
    figure.draw_without_rendering()
    (axis,) = figure.axes
    left, right = axis.get_xlim()
    ticks = [tick for tick in axis.xaxis.get_major_ticks() if left <= tick.get_loc() <= right]
    assert [tick.label1.get_text() for tick in ticks] == ["2k", "5k", "10k", "20k", "50k"]
    assert not any(tick.label1.get_text() for tick in axis.xaxis.get_minor_ticks())
    boxes = [tick.label1.get_window_extent() for tick in ticks]
    assert all(one.x1 < after.x0 for one, after in zip(boxes[:-1], boxes[1:], strict=True))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_students_of_one_kind_alone_are_not_drawn_by_step(report_of, share):
    made = report_of(pd.concat([students(share), direct()]))
    assert made.figures == {} and len(made.tables) == 1
    assert report_of(direct()).tables == []


def test_best_sizes_are_the_claim_of_injected_inputs_alone_and_algorithm_1_else(report_of):
    sizes = (2, 9, 25)
    alone = [students(1.0, sizes, teacher=teacher) for teacher in (5, 9)]
    claims = report_of(pd.concat([*alone, direct(sizes)])).claims
    assert [claim.item.partition(":")[0][:24] for claim in claims] == [
        "size of the student at t",
        "first minima on the data",
        *["least test loss over siz"] * 3,
    ]
    mixed = [students(0.5, sizes, test_labelled_part=0.9), direct(sizes)]
    claims = report_of(pd.concat(mixed)).claims
    assert claims[-1].item.startswith("size of the teacher by algorithm 1")
    gap = next(
        claim
        for claim in claims
        if claim.item.endswith("student 25 minus student 2, teacher 5, share 0.5")
    )
    assert gap.ours == pytest.approx(2.3)
