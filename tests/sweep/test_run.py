"""A sweep that was killed or repeated ends with the same numbers."""

import json
import os
import re
import runpy
import shutil
import signal
import time
import warnings
from pathlib import Path

import filelock
import jax
import ml_collections
import numpy as np
import pandas as pd
import pytest
from reports import read_results

from lsa_jax.arrays import digest
from lsa_jax.errors import (
    InputError,
    MissingDataError,
    MixedDataWarning,
    MixedDevicesWarning,
    MixedVersionsWarning,
)
from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS as settings
from lsa_jax.reporting import files
from lsa_jax.reporting.report import Report, Row
from lsa_jax.sweep import run, work
from lsa_jax.sweep.experiment import Experiment, Outcome
from lsa_jax.sweep.points import Point, make_points
from lsa_jax.sweep.run import run_sweep

ROOT = Path(__file__).resolve().parents[2]


# Learners that are trained, fitted after training, and solved.
SWEEP = [
    "--config=configs/quickstart.py:quick",
    "--config.sweep.learner=('network', 'ntk_trained', 'ntk_infinite')",
]


@pytest.fixture(scope="module")
def start(fork):
    """Starts a launch script on a folder: by default on `SWEEP`."""

    def start(workdir, *, script="sweep", arguments=()):
        config = SWEEP if script == "sweep" else []
        # Compiled as cheaply as in the tests, whose own number of devices is another.
        flags = os.environ["XLA_FLAGS"].replace("count=8", "count=1")
        environment = os.environ | {"XLA_FLAGS": flags}
        return fork(script, *config, f"--workdir={workdir}", *arguments, environment=environment)

    return start


@pytest.fixture(scope="module")
def finish(start):
    """Runs a launch script to its end; returns its output."""

    def finish(workdir, **options):
        status, output, errors = start(workdir, **options).wait()
        assert status == 0, errors
        return output

    return finish


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, finish):
    workdir = tmp_path_factory.mktemp("uninterrupted")
    finish(workdir)
    return workdir


def _kill_when(process, happened):
    deadline = time.monotonic() + 120
    while not happened() and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.is_alive(), "the sweep ended before it could be killed"
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_a_sweep_killed_at_several_moments_ends_with_the_same_results(
    uninterrupted, tmp_path, start, finish
):
    workdir = tmp_path / "killed"

    def count(pattern):
        return len(list(workdir.glob(pattern)))

    moments = [
        lambda: count("groups/*/step_*") > 0,
        lambda: count("runs/*/result.json") >= 6,  # the first group's, and part of the second's
    ]
    for happened in moments:
        _kill_when(start(workdir).process, happened)
        assert not (workdir / "results.csv").exists()
    finish(workdir)
    pd.testing.assert_frame_equal(
        read_results(workdir), read_results(uninterrupted), check_exact=True
    )
    assert not list(workdir.rglob("*.partial")) + list(workdir.glob("groups/*/scratch"))


def test_a_finished_sweep_repeated_does_no_work(uninterrupted, finish):
    before = {p: p.stat().st_mtime_ns for p in (uninterrupted / "runs").rglob("*")}
    results = (uninterrupted / "results.csv").read_bytes()
    assert "nothing to run" in finish(uninterrupted)
    assert {p: p.stat().st_mtime_ns for p in (uninterrupted / "runs").rglob("*")} == before
    assert (uninterrupted / "results.csv").read_bytes() == results


def test_a_folder_in_use_or_of_other_settings_is_refused(uninterrupted, start):
    with filelock.FileLock(uninterrupted / ".lock"):
        status, _, errors = start(uninterrupted).wait()
    assert status == 2 and errors.count("\n") == 1 and "in use" in errors
    changed = start(uninterrupted, arguments=["--config.network.epochs=3"])
    status, _, errors = changed.wait()
    assert status == 2 and errors.count("\n") == 1 and "config.network.epochs is 2 there" in errors


def test_the_report_can_be_made_again(uninterrupted, finish):
    wanted = {p.name: p.read_bytes() for p in uninterrupted.iterdir() if p.is_file()}
    for name in ("report.md", "report.json", "results.csv", "noise_curves.png"):
        (uninterrupted / name).unlink()
    printed = finish(uninterrupted, script="report")
    assert "Percentage of zero-noise accuracy retained" in printed
    assert {p.name: p.read_bytes() for p in uninterrupted.iterdir() if p.is_file()} == wanted


def test_a_group_that_is_not_there_is_refused(uninterrupted):
    with pytest.raises(InputError, match="--groups has 99; accepted: 0 to"):
        work.run(uninterrupted, [0, 99], data_dir=None)


def test_missing_data_leave_a_folder_as_it_was(tmp_path):
    data, workdir = tmp_path / "data", tmp_path / "out"
    for folder in (data, workdir):
        folder.mkdir()
    (workdir / ".lock").touch()
    config = runpy.run_path(str(ROOT / "configs/lsa/fig6_mnist.py"))["get_config"]()
    points = make_points(config, [{}], lambda config: None)
    with pytest.raises(MissingDataError):
        run_sweep(config, points, workdir, data_dir=data, command=[])
    assert [entry.name for entry in workdir.iterdir()] == [".lock"]


def test_64_bits_of_jax_are_refused_before_anything_is_written(tmp_path):
    config = settings.default_config()
    points = make_points(config, [{}], lambda config: None)
    with (
        jax.enable_x64(True),
        pytest.raises(InputError, match="X64 is on; accepted in sweeps: off"),
    ):
        run_sweep(config, points, tmp_path / "out", data_dir=None, command=[])
    assert not (tmp_path / "out").exists()


CONFIG = ml_collections.ConfigDict({"experiment": "a"})
POINTS = [
    Point(name, {"k": k}, ml_collections.ConfigDict({"experiment": "a", "k": k}))
    for k, name in enumerate("ab")
]


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Runs the missing points of a sweep of two groups, and returns the warnings.

    Its data are the name of their folder.
    """
    experiment = Experiment(
        load=lambda points, data_dir: {"text": data_dir.name, "x": np.zeros(3)},
        run=lambda group, data, directory, progress: [Outcome({}, [])],
        report=lambda config, runs, workdir: Report("T"),
    )
    monkeypatch.setattr(run, "load_experiment", lambda name: experiment)
    monkeypatch.setattr(run, "report_sweep", lambda *given: (pd.DataFrame(), None))
    workdir = tmp_path / "out"

    def call(how, data):
        data_dir, missing = tmp_path / data, workdir / "runs" / "b"
        shutil.rmtree(missing, ignore_errors=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if how == "record":
                load = {"load": lambda: experiment.load(POINTS, data_dir)}
                named = {"command": [], "devices": ["tasks of launch.groups"]}
                with run.recorded_sweep(CONFIG, POINTS, workdir, **load, **named):
                    pass
            elif how == "groups":
                run.run_groups(CONFIG, POINTS, workdir, [0, 1], data_dir=data_dir)
            else:
                run.run_sweep(CONFIG, POINTS, workdir, data_dir=data_dir, command=[])
        return [(w.category, str(w.message)) for w in caught]

    return call, workdir


@pytest.mark.parametrize("begun", ["sweep", "record"])
@pytest.mark.parametrize("goes_on", ["sweep", "groups"])
def test_a_sweep_that_goes_on_with_other_data_says_so_in_one_line(sweep, begun, goes_on):
    call, workdir = sweep
    assert call(begun, "mine") == call(goes_on, "mine") == []
    ((category, words),) = call(goes_on, "others")
    assert category is MixedDataWarning and (workdir / "runs" / "b" / "result.json").exists()
    assert f"--workdir {workdir} was begun with other data" in words
    # Records of earlier versions have no data.
    record = files.read_record(workdir)
    del record["data"]
    files.write_json(workdir / "config.json", record)
    assert call(goes_on, "others") == []


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ([], "0 outcomes of 1 points"),
        ([Outcome({"id": 1}, [])], "the metric 'id' has the name of another column"),
        ([Outcome({"k": 7}, [])], "the metric 'k'"),
        ([Outcome({"test_classes": [0.5, 1]}, [])], "test_classes is .*; expected a number"),
        ([Outcome({}, [], "bad")], "status is 'bad'"),
        ([Outcome({}, [{"step": "one"}])], "its step no number"),
    ],
)
def test_outcomes_that_could_not_be_read_again_are_refused_and_none_is_kept(
    sweep, monkeypatch, outcomes, words
):
    call, workdir = sweep
    experiment = run.load_experiment("")._replace(run=lambda *given: outcomes)
    monkeypatch.setattr(run, "load_experiment", lambda name: experiment)
    with pytest.raises(ValueError, match=words):
        call("sweep", "mine")
    assert not (workdir / "runs").exists()


def test_numbers_of_jax_are_kept_and_a_message_is_one_line(sweep, monkeypatch):
    call, workdir = sweep
    numbers = {"loss": jax.numpy.float32(0.5), "k": jax.numpy.int32(0)}
    one = Outcome(numbers, [numbers], "failed", "singular\nmatrix")
    outcomes = {0: [one], 1: [one._replace(metrics={})]}
    experiment = run.load_experiment("")._replace(run=lambda group, *_: outcomes[group[0].config.k])
    monkeypatch.setattr(run, "load_experiment", lambda name: experiment)
    call("sweep", "mine")
    found = files.read_result(workdir, "a")
    assert (found["loss"], found["k"], found["message"]) == (0.5, 0, "singular matrix")
    assert files.read_metrics(workdir, "a") == [{"loss": 0.5, "k": 0}]


@pytest.mark.parametrize(
    ("record", "category", "words"),
    [
        ({"versions": run.package_versions()}, None, ""),
        ({"versions": {"jax": "0.1"}}, MixedVersionsWarning, r"other versions \(jax 0.1 -> "),
        ({"devices": ["cpu:0 (cpu)"]}, None, ""),  # of which there are more now
        ({"devices": ["SLURM: 4 CPU cores and 1 GPUs a task"]}, None, ""),
        (
            {"devices": [f"TPU_{n}(process=0,(0,0,0,{n})) (TPU v4)" for n in (0, 1)]},
            *(MixedDevicesWarning, r"on other devices \(TPU v4 -> cpu\); its results"),
        ),
    ],
)
def test_other_versions_and_other_kinds_of_devices_are_told(tmp_path, record, category, words):
    files.write_json(tmp_path / "config.json", record)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run.warn_of_changes(tmp_path, None)
    assert [w.category for w in caught] == ([category] if category else [])
    assert all(re.search(words, str(w.message)) for w in caught)


def test_the_digest_is_of_all_that_data_hold_and_of_no_place_or_object():
    x = np.arange(6, dtype=np.float32)
    changed = x.copy()
    changed[3] = np.nextafter(x[3], 4)
    trees = [
        *(x, changed, x.astype(np.float64), x.reshape(2, 3), x[::-1], [x, x], {"a": x, "b": "cat"}),
        *({"a": x, "b": "dog"}, [x, 3], [x, 4], jax.random.key(0), jax.random.key(1), None),
    ]
    assert len({digest(tree) for tree in trees}) == len(trees)
    same = [jax.numpy.asarray(x), {"a": x, "b": object()}, {"b": None, "a": x}]
    assert {digest(tree) for tree in same} == {digest(x)}


CLAIMS = [
    Row("a gap", "above 0", 1.0, None, "shown", 0.5, 1.5),
    Row("a rate", "above 0", 1.0, None, "undecided", note="it would take 9 seeds"),
    Row("a law", "", 1.0, None, "measured"),
]


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Returns the report of a sweep with these statuses and words of its command."""

    def make(config, runs, workdir):
        assert (runs.finished["status"] == "ok").any()
        return Report("T", claims=CLAIMS)

    experiment = Experiment(None, make)
    monkeypatch.setattr(run, "load_experiment", lambda name: experiment)
    config = settings.default_config()
    points = make_points(config, settings.sweep(config), settings.validate)

    def reported(statuses, *words):
        (tmp_path / "config.json").write_text(json.dumps({"command": ["launch.sweep", *words]}))
        swept = points[: len(statuses)]
        ids = [point.id for point in swept]
        for name in ids:
            (tmp_path / "runs" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "runs" / name / "metrics.jsonl").touch()
        results = pd.DataFrame({"id": ids, "status": statuses})
        return run.make_report(config, swept, results, tmp_path)

    return reported


def test_claims_of_runs_that_all_came_to_their_end_are_the_experiments_own(report):
    assert report(["ok", "ok"], "--config=configs/lsa/lemmas.py:small").claims == CLAIMS


@pytest.mark.parametrize(
    "words", [["--config=c.py:quick"], ["launch.sweep", "--config=c.py:quick", "--x=1"]]
)
def test_a_size_for_tests_shows_nothing(report, words):
    found = report(["ok"], *words).claims
    assert [claim.status for claim in found] == ["not run"] * 3
    assert {claim.note for claim in found} == {"a check that it starts"}


def test_where_all_runs_failed_nothing_is_claimed(report):
    found = report(["failed", "failed"])
    assert found.claims == [] and found.notes == ["All runs failed: nothing is claimed."]


def test_a_change_of_any_of_the_files_that_a_sweep_compares_is_named(tmp_path):
    config, files_of = ml_collections.ConfigDict({"net": "cnn"}), ("a.py", "b.py")

    def identity(*values):
        points = make_points(config, [{"net": value} for value in values], lambda config: None)
        return run._identity(config, points)

    for name in files_of:
        (tmp_path / name).write_text("x = 1\n")
    named = [f"{tmp_path / name}:x" for name in files_of]
    whole = identity(*named)
    for name in files_of:
        (tmp_path / name).write_text(f"x = '{name}'\n")
        assert "the file of config.net has changed" in run._difference(whole, identity(*named))
        (tmp_path / name).write_text("x = 1\n")
    assert identity(*named) == whole
    assert run._difference(whole, identity("cnn")) == "its points are others"
