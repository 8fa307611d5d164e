"""Logs are copies of the files on disk, written once."""

import json
import os
import resource
import sys
import types

import pytest

from lsa_jax.errors import StorageError
from lsa_jax.reporting import files, logs

ROWS = [
    {"epoch": 1, "test_accuracy": 0.5, "note": "text", "curve": [1.0], "bound": None},
    {"epoch": 2, "test_accuracy": 0.75, "note": "text", "curve": [1.0], "bound": None},
]
RESULT = {"id": "a", "test_accuracy": 0.75, "images_per_second": 9.0, "status": "ok"}


@pytest.fixture
def workdir(tmp_path):
    files.write_run(tmp_path, "a", RESULT, ROWS)
    files.write_json(tmp_path / "config.json", {"config": {"seed": 3}})
    return tmp_path


@pytest.fixture
def wandb(monkeypatch):
    """Returns the calls of a stand-in for Weights & Biases."""
    told = {"init": [], "log": [], "summary": {}, "finished": 0}

    class Run:
        id = "abc"
        summary = told["summary"]

        def log(self, row, step):
            told["log"].append((step, row))

        def finish(self):
            told["finished"] += 1

    def init(**settings):
        told["init"].append(settings)
        return Run()

    module = types.SimpleNamespace(init=init, login=lambda: True, Error=LookupError)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return told


def test_weights_and_biases_gets_each_run_once(workdir, wandb):
    for _ in range(2):
        logs.make_log(workdir, tensorboard=False, wandb_project="digits")("a")
    (settings,) = wandb["init"]
    assert settings["project"] == "digits" and settings["name"] == "a"
    assert settings["config"]["seed"] == 3 and settings["dir"] == str(workdir)
    assert wandb["log"] == [(1, {"test_accuracy": 0.5}), (2, {"test_accuracy": 0.75})]
    assert wandb["summary"] == RESULT and wandb["finished"] == 1
    record = json.loads((workdir / "wandb/a.json").read_text())
    assert record == {"project": "digits", "id": "abc"}


def test_event_files_on_a_full_disk_are_one_line_and_are_written_later(workdir):
    pytest.importorskip("tensorboardX")
    many = [{"step": step, "loss": 1.0 / step} for step in range(1, 2000)]
    files.write_run(workdir, "a", RESULT, many)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))  # stands for a full disk
    try:
        with pytest.raises(StorageError, match=r"events.* cannot be written .*: File too large"):
            logs.write_tensorboard(workdir, "a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (workdir / "tensorboard/a").exists()
    logs.write_tensorboard(workdir, "a")
    assert os.listdir(workdir / "tensorboard") == ["a"]
