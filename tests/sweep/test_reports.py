"""Reports of any sweep: for a size for tests, and for failed runs."""

import json

import pandas as pd
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS as settings
from lsa_jax.reporting import files
from lsa_jax.reporting.report import Report, Row
from lsa_jax.sweep import reports
from lsa_jax.sweep.experiment import Experiment
from lsa_jax.sweep.points import Point, make_points

CLAIMS = [
    Row("a gap", "above 0", 1.0, None, "shown", 0.5, 1.5),
    Row("a rate", "above 0", 1.0, None, "undecided", note="it would take 9 seeds"),
    Row("a law", "", 1.0, None, "measured"),
]


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Returns the report of a sweep with these statuses and words of its command."""

    def make(config, results, workdir):
        assert (results["status"] == "ok").any()
        return Report("T", [], CLAIMS, {})

    experiment = Experiment(None, make)
    monkeypatch.setattr(reports, "load_experiment", lambda name: experiment)
    config = settings.default_config()
    points = make_points(config, settings.sweep(config), settings.validate)

    def reported(statuses, *words):
        (tmp_path / "config.json").write_text(json.dumps({"command": ["launch.sweep", *words]}))
        swept = points[: len(statuses)]
        ids = [point.id for point in swept]
        for run in ids:
            (tmp_path / "runs" / run).mkdir(parents=True, exist_ok=True)
            (tmp_path / "runs" / run / "metrics.jsonl").touch()
        results = pd.DataFrame({"id": ids, "status": statuses})
        return reports.make_report(config, swept, results, tmp_path)

    return reported


def test_claims_of_runs_that_all_came_to_their_end_are_the_experiments_own(report):
    assert report(["ok", "ok"], "--config=configs/lsa/lemmas.py:small").claims == CLAIMS


@pytest.mark.parametrize("words", [["--config=c.py:quick"], ["--config", "c.py:quick", "--x=1"]])
def test_a_size_for_tests_shows_nothing(report, words):
    found = report(["ok"], *words).claims
    assert [claim.status for claim in found] == ["not run"] * 3
    assert {claim.note for claim in found} == {"a check that it starts"}


def test_where_all_runs_failed_nothing_is_claimed(report):
    found = report(["failed", "failed"])
    assert found.claims == [] and found.notes == ["All runs failed: nothing is claimed."]


def test_a_report_counts_missing_runs_and_is_made_again_quietly(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reports, "make_report", lambda *given: Report("T", [], CLAIMS, {}))
    config = settings.default_config()
    points = [Point(run, {}, config) for run in "abc"]
    for run in "ab":
        files.write_run(tmp_path, run, {"id": run, "status": "ok"}, [])
    shown = []
    reports.report_sweep(config, points, tmp_path, shown.append)
    assert shown[1:] == ["1 of 3 runs are missing"]
    monkeypatch.setattr(reports, "recorded_points", lambda folder: (config, points))
    (tmp_path / "report.md").unlink()
    reports.remake(tmp_path)
    assert (tmp_path / "report.md").exists() and capsys.readouterr().out == ""


def test_a_text_in_the_place_of_an_accuracy_is_named_with_what_to_do(tmp_path):
    result = {"id": "a", "status": "ok", "test_accuracy": "0.5"}
    files.write_run(tmp_path, "a", result, [])
    with pytest.raises(InputError, match="result.json is damaged: test_accuracy is '0.5'"):
        files.read_results(tmp_path, ["a"])
