"""A sweep in one call writes the same files as the command, and returns their contents."""

import json

import pandas as pd
import pytest

from lsa_jax import sweep
from lsa_jax.errors import InputError
from lsa_jax.experiments.transformers.settings import SETTINGS


def _config():
    config = SETTINGS.default_config()
    config.question, config.lists, config.label_shift = "value_step", "cyclic", 3
    config.sweep.cases, config.sweep.num_sequences = ((20, 5, 3),), (50, 700)
    return config


def test_one_call_leaves_what_a_sweep_leaves_and_returns_it_quietly(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    config = _config()
    found = sweep.run_config(config)
    assert capsys.readouterr().out == ""
    assert found.workdir.parent == tmp_path
    assert list(found.results["num_sequences"].dropna()) == [50, 700]
    assert (found.results["status"] == "ok").all()
    written = pd.read_csv(found.workdir / "results.csv")
    both = (table.drop(columns="message") for table in (found.results, written))
    pd.testing.assert_frame_equal(*both, check_dtype=False)
    told = [row["item"] for row in json.loads((found.workdir / "report.json").read_text())]
    assert list(found.claims["item"]) == told and len(told) > 2
    config.sweep.num_sequences = ()  # without effect on the finished sweep
    assert found.figure("value_step").axes
    with pytest.raises(InputError, match="name is 'lunch'; accepted: value_step"):
        found.figure("lunch")


def test_a_field_that_is_not_accepted_is_refused_before_anything_is_written(tmp_path):
    config = _config()
    config.list_length = 0
    with pytest.raises(InputError, match="config.list_length is 0; accepted: "):
        sweep.run_config(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()
