"""The report on input structure, from made-up numbers, by hand."""

import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning.input_structure import report, settings
from lsa_jax.experiments.feature_learning.input_structure.claims import num_test
from lsa_jax.sweep.variants import set_fields


def configure(**axes):
    fields = {"seed": (0, 1), "teacher_size": (5,)} | axes
    return set_fields(
        settings.default_config(), {f"sweep.{name}": values for name, values in fields.items()}
    )


@pytest.fixture
def report_of(tmp_path, write_courses):
    """Returns a function of a configuration, and of changes to results, to their report."""
    parts = {"test_labelled_part": 0.9, "test_injected_part": 0.6, "test_accuracy": 0.75}

    def made(config, change=lambda rows: rows):
        points = settings.sweep(config)
        rows = pd.DataFrame(points).assign(status="ok", teacher_accuracy=0.97)
        rows = rows.rename(columns={"data.injected": "injected"})
        rows["id"] = [f"{place}" for place in rows.index]
        rows["test_labelled_part"] = 0.9 + 0.01 * rows["seed"]
        rows["test_injected_part"] = 0.7 - rows["size"] / 1000
        rows["test_accuracy"] = 0.8 + 0.15 * (rows["learner"] == "direct")
        rows["test_loss"], rows["train_loss"] = 1 / rows["size"] + rows["seed"], 0.5 / rows["size"]
        rows["parameters"] = 10 * rows["size"]
        rows = change(rows.assign(least_used_class=0.05, most_used_class=0.125))
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        courses = [{"step": step, **parts} for step in (0, 5)]
        write_courses(folder, dict.fromkeys(rows["id"], courses))
        return report.make_report(config, rows, folder)

    return made


@pytest.mark.parametrize(
    ("dataset", "asked", "images"),
    [("digits", None, 360), ("mnist", None, 10_000), ("svhn", None, 26_032), ("mnist", 500, 500)],
)
def test_claims_count_the_test_images_of_the_data_set(dataset, asked, images):
    fields = {"data.dataset": dataset, "data.num_test": asked}
    assert num_test(set_fields(settings.default_config(), fields)) == images


def test_the_table_of_students_has_their_parts_beside_direct_training(report_of):
    config = configure(teacher_size=(4, 5), share=(0.25, 0.5))
    made = report_of(config)
    table = made.tables[0][1]
    assert table["teacher"].tolist() == [4, 4, 5, 5]
    assert table["share"].tolist() == ["0.25", "0.5"] * 2
    assert table.iloc[1].tolist()[4:] == [
        *("90.50 ± 0.71", "69.10 ± 0.00", "80.00 ± 0.00", "95.00 ± 0.00", "97.00 ± 0.00"),
        "0.050 to 0.125",
    ]
    assert "adam with rate 0.001, batches of 200, 12 epochs, R with weight 1 and" in made.notes[0]
    both = configure(injected=("gaussian", "tiny_imagenet"))
    made = report_of(both, lambda rows: rows[rows["learner"] == "student"])
    assert made.tables[0][1]["injected"].tolist() == ["gaussian", "tiny_imagenet"]
    assert made.tables[0][1]["trained directly"].tolist() == ["", ""]
    assert report_of(config, lambda rows: rows.assign(status="failed")).tables == []


def test_students_on_both_kinds_are_drawn_by_step_and_curves_by_size(report_of):
    made = report_of(configure(share=(0.5, 1.0), size=(2, 9), direct_size=(2, 9)))
    assert set(made.figures) == {"curves", "sizes"}
    assert len(made.extra_tables["curves"]) == 2 * 12
    curves = made.figures["curves"]()
    titles = [axis.get_title() for axis in curves.axes]
    assert titles == ["teacher 5, student 2, share 0.5", "teacher 5, student 9, share 0.5"]
    lines = {line.get_label(): line.get_ydata().tolist() for line in curves.axes[0].get_lines()}
    assert lines == {
        "labelled part": pytest.approx([90, 90]),
        "injected part": pytest.approx([60, 60]),
        "whole mixture": pytest.approx([75, 75]),
        "trained on the data set directly": pytest.approx([75, 75]),
    }
    sizes = made.figures["sizes"]()
    of_students = ["teacher of size 5, share 0.5", "teacher of size 5, share 1"]
    assert [axis.get_title() for axis in sizes.axes] == ["on the data set", *of_students]
    test, train = sizes.axes[0].containers
    assert test.lines[0].get_ydata().tolist() == pytest.approx([1.0, 1 / 9 + 0.5])
    assert train.lines[0].get_xdata().tolist() == [20, 90]
    heading, table = made.tables[1]
    assert heading == "Test loss by size"
    assert table["size"].tolist() == [2, 9] and table["parameters"].tolist() == [20, 90]
    assert table["on the data set"].tolist() == pytest.approx([1.0, 1 / 9 + 0.5])


def test_numbers_of_parameters_can_be_read(report_of):
    """Over less than two decades, where by default labels between the powers lie on each other."""
    made = report_of(configure(direct_size=(160, 240, 400, 800, 1200, 2000, 4000, 8000), size=(9,)))
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
    made = report_of(configure(share=(share,)))
    assert made.figures == {} and len(made.tables) == 1
