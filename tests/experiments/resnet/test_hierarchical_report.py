"""The tables on hierarchical targets, from made-up errors, by hand."""

import json

import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.experiments.resnet.hierarchical import settings
from lsa_jax.experiments.resnet.hierarchical.report import error_table, make_report

make = maker(settings, {"sweep.width": (50, 200), "sweep.seed": (0, 1)})


def row(net, learner, error, **fields):
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15}
    found = {"num_train": 500, "width": 200, "seed": 0, "beta": 1.0, "alpha": 0.3}
    found |= task | {"net": net, "learner": learner, "test_error": error, "status": "ok"} | fields
    return {"id": "-".join(map(str, found.values())).replace("/", "_")} | found


def reported(workdir, rows, **fields):
    """Returns the report on rows, whose curves fall to their errors from ten times as much."""
    results = pd.DataFrame(rows)
    for one in rows:
        folder = workdir / "runs" / one["id"]
        folder.mkdir(parents=True)
        lines = [
            {"epoch": epoch, "test_error": factor * one["test_error"]}
            for epoch, factor in ((0, 10), (1, 1))
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return make_report(make(**fields)[0], results, workdir)


def test_cells_are_medians_with_the_range_of_the_seeds_and_a_limit_stands_apart():
    errors = [("a", 50, 3.0), ("a", 50, 1.0), ("a", 50, 1.25), ("a", 1000, 0.5), ("b", np.nan, 2.0)]
    table = error_table(pd.DataFrame(errors, columns=["series", "width", "test_error"]), "width")
    assert list(table) == ["series", "50", "1000", "limit"]
    by_series = table.set_index("series")
    assert by_series.loc["a"].tolist()[:2] == ["1.25 (1 to 3)", "0.5"]
    assert by_series.loc["b", "limit"] == "2" and pd.isna(by_series.loc["a", "limit"])


@pytest.mark.parametrize("sizes", [(500,), (500, 1000)])
def test_a_sweep_of_beta_names_it_and_the_number_of_examples_where_there_are_two(tmp_path, sizes):
    rows = [
        row("3resnet", "all", beta + size / 1e5, beta=beta, num_train=size)
        for size in sizes
        for beta in (1.0, 0.3)
    ]
    report = reported(tmp_path, rows, question="beta", sweep__num_train=sizes)
    names = report.tables[0][1]["series"].tolist()
    endings = [f", N = {size}" for size in sizes] if len(sizes) > 1 else [""]
    assert names == [f"3resnet(all), beta = {b}{end}" for end in endings for b in ("1", "0.3")]


def test_a_sweep_of_alpha_has_its_table_and_is_drawn_against_what_an_answer_without_g_has(tmp_path):
    alphas, sizes = (0.15, 0.3, 0.6), (1000, 4000)
    rows = [
        row("3resnet", "all", size / 1e4 * alpha, alpha=alpha, num_train=size)
        for size in sizes
        for alpha in alphas
    ]
    fields = {"sweep__alpha": alphas, "sweep__num_train": sizes, "sweep__width": (200,)}
    report = reported(tmp_path, rows, question="alpha", **fields)
    table = report.tables[0][1].set_index("series")
    assert list(table) == ["0.15", "0.3", "0.6"]
    assert table.loc["3resnet(all), N = 4000"].tolist() == ["0.06", "0.12", "0.24"]
    assert len(report.claims) == 6
    (figure,) = (draw() for draw in report.figures.values())
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    np.testing.assert_allclose(lines["k alpha²"].get_ydata(), 15 * np.array(alphas) ** 2)
    np.testing.assert_allclose(lines["3resnet(all), N = 1000"].get_ydata(), np.array(alphas) / 10)


def test_a_sweep_of_alpha_at_two_widths_has_a_series_each(tmp_path):
    rows = [row("3resnet", "all", w / 1e3, alpha=a, width=w) for a in (0.3, 0.6) for w in (50, 200)]
    report = reported(tmp_path, rows, question="alpha", sweep__alpha=(0.3, 0.6))
    assert report.tables[0][1].values.tolist() == [
        ["3resnet(all), m = 50", "0.05", "0.05"],
        ["3resnet(all), m = 200", "0.2", "0.2"],
    ]


@pytest.mark.parametrize(("widths", "dots"), [((50,), 3), ((50, 200), 0)])
def test_seeds_of_a_single_width_are_drawn_one_by_one(tmp_path, widths, dots):
    rows = [
        row("3resnet", "all", error, width=width, seed=seed)
        for width in widths
        for seed, error in enumerate((0.5, 0.25, 2.0))
    ]
    report = reported(tmp_path, rows, question="width")
    (figure,) = (draw() for draw in report.figures.values())
    _, *scattered = figure.axes[0].collections  # after the range
    found = [list(place) for one in scattered for place in one.get_offsets()]
    assert found == [[50, 0.5], [50, 0.25], [50, 2.0]][:dots]


def test_widths_are_reported_at_the_end_and_at_the_best_epoch_without_the_runs_that_failed(
    tmp_path,
):
    rows = [row("3resnet", "all", e, width=w) for w, e in ((50, 0.5), (200, 0.25))]
    rows.append(row("3resnet", "all", 99.0, width=200, seed=1, status="failed"))
    report = reported(tmp_path, rows, question="width")
    (_, last), (_, best), (_, chosen) = report.tables
    assert last.iloc[0].tolist() == ["3resnet(all)", "0.5", "0.25"]
    assert best.iloc[0].tolist() == ["3resnet(all)", "0.5", "0.25"] and len(chosen) == 2
    curves = report.extra_tables["curves"]
    assert curves["test_error"].tolist() == [5.0, 0.5, 2.5, 0.25]
    assert curves.index.tolist() == [0, 1, 2, 3] and set(curves["seed"]) == {0}


def test_samples_have_a_table_a_task(tmp_path):
    rows = [row("3resnet", "all", 0.1, num_train=n) for n in (100, 2000)]
    rows += [row("3resnet", "all", 0.2, d=16, num_train=100, outputs=4)]
    report = reported(tmp_path, rows, question="samples")
    headings = [heading for heading, _ in report.tables[:-1]]
    assert [heading.split("= ")[1] for heading in headings] == ["(16, 2, 4, 4)", "(30, 2, 4, 15)"]
    assert list(report.tables[1][1]) == ["series", "100", "2000"]


@pytest.mark.parametrize("epochs", [(), (2, 30)])
def test_how_candidates_were_dropped_is_told_where_they_were(tmp_path, epochs):
    keep, of_kernels = (8, 3)[: len(epochs)], (4, 1)[: len(epochs)]
    rungs = {"rung_epochs": epochs, "rung_keep": keep, "kernel_rung_keep": of_kernels}
    fields = {f"search__{name}": value for name, value in rungs.items()}
    report = reported(tmp_path, [row("3resnet", "all", 1.0)], question="width", **fields)
    assert ("8 (4) after 2, 3 (1) after 30 epochs" in report.notes[-1]) == bool(epochs)
