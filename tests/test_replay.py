"""Published claims equal today's decisions on the kept results, whose figures can be drawn."""

import json
from pathlib import Path

import pandas as pd
import pytest
from matplotlib import pyplot

from lsa_jax.reporting import files, gallery
from lsa_jax.sweep import publishing, run
from lsa_jax.sweep.experiment import load_experiment
from lsa_jax.sweep.points import make_points, recorded_points

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
RECORDS = {item.name: item for item in gallery.read(GALLERY).values() if item.results}
# Rows are compared in these; notes and other wording may change.
COMPARED = ("item", "paper", "ours", "status", "low", "high", "primary", "holm")


def replayed(item, folder):
    """Returns the report of a kept sweep, made again."""
    publishing.unpack(GALLERY / item.folder / item.results, folder)
    config, points = recorded_points(folder)
    results = files.read_results(folder, [point.id for point in points])
    return run.make_report(config, points, results, folder)


def smallest():
    """Returns the names of the smallest records by the kinds of their figures."""
    found = {}
    for name, item in RECORDS.items():
        size = (GALLERY / item.folder / item.results).stat().st_size
        kind = item.folder, *sorted({one.split(".")[-2].split("_")[0] for one in item.pictures})
        found[kind] = min(found.get(kind, (size, name)), (size, name))
    return {name for _, name in found.values()}


DRAWN = smallest()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_s_claims_are_decided_as_published_and_its_figures_drawn(name, tmp_path):
    report = replayed(RECORDS[name], tmp_path)
    rows = json.loads(json.dumps([row._asdict() for row in report.claims]))
    assert [{key: row[key] for key in COMPARED} for row in rows] == [
        {key: row.get(key) for key in COMPARED} for row in RECORDS[name].sweep.claims
    ], (
        "The code decides these claims differently. If that is intended, raise report_version "
        "of the experiment and run: python -m launch.reproduce --gallery=docs/gallery"
    )
    for draw in report.figures.values() if name in DRAWN else ():
        figure = draw()
        figure.set_layout_engine("none")  # finding the panels' places would take most of the time
        figure.draw_without_rendering()
        assert any(axis.has_data() for axis in figure.axes)
        pyplot.close(figure)


def experiments():
    """Returns the name of the smallest record of each experiment."""
    found = {}
    for name, item in RECORDS.items():
        experiment = item.fingerprint["settings"]["experiment"]
        found[experiment] = min(
            found.get(experiment, (item.sweep.runs, name)), (item.sweep.runs, name)
        )
    return sorted(name for _, name in found.values())


@pytest.mark.filterwarnings("ignore::UserWarning")  # of empty legends and axes
@pytest.mark.parametrize("name", experiments())
def test_the_one_point_of_launch_run_is_reported_though_nothing_is_swept(name, tmp_path):
    """Kinds of points, as launch.run stores it: without the columns of swept settings."""
    item = RECORDS[name]
    publishing.unpack(GALLERY / item.folder / item.results, tmp_path)
    config, points = recorded_points(tmp_path)
    columns = load_experiment(config.experiment).columns
    kinds = {str([v for v in p.settings.values() if isinstance(v, str)]): p for p in points}
    for point in [*kinds.values()][:2]:
        (one,) = make_points(point.config, [{}], lambda config: None)
        result = files.read_result(tmp_path, point.id)
        swept = {name.rpartition(".")[2] for name in point.settings}
        left = {key: value for key, value in result.items() if key not in swept}
        result = {**columns(one.config), **left, "id": one.id}
        files.write_run(tmp_path, one.id, result, files.read_all_metrics(tmp_path, point.id))
        report = run.make_report(one.config, [one], pd.DataFrame([result]), tmp_path)
        for draw in report.figures.values():
            pyplot.close(draw())
