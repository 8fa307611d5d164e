"""A sweep that goes on under other conditions than it was begun with says so, and goes on."""

import re
import shutil
import warnings

import jax
import ml_collections
import numpy as np
import pandas as pd
import pytest

from lsa_jax.errors import MixedDataWarning, MixedDevicesWarning, MixedVersionsWarning
from lsa_jax.processes import ProcessGroup
from lsa_jax.reporting import files
from lsa_jax.reporting.report import Report
from lsa_jax.sweep import conditions, run
from lsa_jax.sweep.experiment import Experiment, Outcome
from lsa_jax.sweep.points import Point

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
        report=lambda config, results, workdir: Report("T", [], [], {}),
    )
    monkeypatch.setattr(run, "load_experiment", lambda name: experiment)
    monkeypatch.setattr(run, "report_sweep", lambda *given: pd.DataFrame())
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


def test_data_that_only_one_of_several_processes_has_otherwise_are_told(tmp_path, monkeypatch):
    files.write_json(tmp_path / "config.json", {"data": conditions.digest("mine")})
    other = np.array([conditions.digest(name) for name in ("mine", "others")], np.uint32)
    monkeypatch.setattr(ProcessGroup, "gather", lambda group, tree: other)
    with pytest.warns(MixedDataWarning):
        conditions.warn_of_changes(tmp_path, "mine")


@pytest.mark.parametrize(
    ("record", "category", "words"),
    [
        ({"versions": conditions.versions()}, None, ""),
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
        conditions.warn_of_changes(tmp_path, None)
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
    assert len({conditions.digest(tree) for tree in trees}) == len(trees)
    same = [jax.numpy.asarray(x), {"a": x, "b": object()}, {"b": None, "a": x}]
    assert {conditions.digest(tree) for tree in same} == {conditions.digest(x)}
