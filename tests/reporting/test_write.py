"""A sweep's page holds all of its report, and needs nothing else."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest

from lsa_jax.reporting import files
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.write import counts_in_words, table_of_means, write_report

RECORD = {
    "command": ["/somewhere/launch/sweep.py", "--config=configs/a.py", "--workdir=runs/a b"],
    "versions": {"jax": "0.10.2"},
    "devices": ["TFRT_CPU_0 (cpu)"],
    "host": {"cpu": "A processor", "cores": 2, "memory_gib": 24.0, "python": "3.11.7"},
    "config": {"title": "T", "data": {"dataset": "digits", "classes": [0, 1]}},
}
LONG = "learner=network-width_factor=100-noise=0.25-placement=random_location-seed=0"


def _draw():
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(10, 4))
    axis.plot([0, 1], [1, 0])
    return figure


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the report on three runs, of which one failed and one has a long name."""
    workdir = tmp_path_factory.mktemp("page")
    results = pd.DataFrame(
        {
            "id": ["b", "a", LONG],
            "noise": [10.0, 9.0, None],
            "test_accuracy": [0.123456, 0.9, None],
            "seconds": [1.0, 2.0, 3.0],
            "status": ["ok", "ok", "failed"],
            "message": ["", "", "the <loss> was not finite"],
        }
    )
    rows = [{"step": 0, "test_accuracy": 0.1}, {"step": 10, "test_accuracy": 0.9}]
    files.write_run(workdir, "a", {"id": "a"}, rows)
    files.write_run(workdir, "b", {"id": "b"}, rows[:1])
    files.write_json(workdir / "config.json", RECORD)
    report = Report(
        title="A title & more",
        tables=[("A heading", pd.DataFrame({"series": ["x"], "a very long heading " * 9: [1.0]}))],
        claims=[
            Row("gap " * 40, 18.2, 20.5, 1.25, "shown", 17.25, 23.75),
            Row("b", "-", 1.0, None, "not run"),
        ],
        figures={"curve": _draw},
        notes=["A note."],
    )
    write_report(workdir, results, report)
    return workdir


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text().replace("<wbr>", "")


def test_the_page_needs_nothing_from_elsewhere_and_texts_are_no_markup(page):
    assert "&lt;loss&gt;" in page and "<loss>" not in page
    assert not re.search(r"https?://|@import|url\(|<link", page)
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == 1 and sources[0].startswith("data:image/svg+xml;base64,")
    ElementTree.fromstring(base64.b64decode(sources[0].partition(",")[2]))


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        (
            ["shown", "not run", "not shown"],
            "1 of 2 claims holds, 1 does not, 1 claim was not run.",
        ),
        (
            ["measured", "shown", "measured"],
            "1 of 1 claims holds, 2 numbers without an expected value.",
        ),
        ([], "It makes no claims."),
    ],
)
def test_a_number_without_a_range_counts_neither_for_nor_against(statuses, words):
    assert counts_in_words([{"status": status} for status in statuses]) == words


def test_a_table_of_means_has_a_row_a_group_and_the_columns_that_runs_have():
    rows = pd.DataFrame({"k": [2, 2, 1, None], "loss": [1.0, 3.0, 5.0, None], "seed": 0})
    table = table_of_means(rows, ["k"], {"loss": "test loss", "other": "not there"})
    assert table.columns.tolist() == ["k", "test loss"]
    assert table["k"].tolist()[:2] == [2, 1] and len(table) == 3
    assert table["test loss"].tolist() == ["2 ± 1.4", "5", ""]
