"""What a sweep records of its command is what absl took of it, however it was typed."""

import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from launch import _cli
from lsa_jax.sweep import config_files

FIELD = "--config.noise=2"


@pytest.mark.parametrize(
    "typed",
    [
        ["--config=c.py:quick", FIELD, "--workdir=out"],
        ["-config=c.py:quick", FIELD, "--workdir=out"],
        ["--workdir=out", FIELD, "-config", "c.py:quick"],
        ["--config=d.py", "--workdir=out", "--config", "c.py:quick", FIELD],
        ["--flagfile=FILE", "--workdir=out"],
        ["--config=d.py", "--workdir=out", "-flagfile", "FILE"],
    ],
)
def test_a_command_is_recorded_as_it_was_taken(typed, tmp_path, monkeypatch):
    file = tmp_path / "flags"
    file.write_text(f"# a comment\n--config=c.py:quick\n{FIELD}\n")
    argv = ["sweep", *(word.replace("FILE", str(file)) for word in typed)]
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(_cli, "_overrides", [])
    monkeypatch.setattr(_cli, "_words", [])
    with flagsaver.flagsaver():
        flags.FLAGS.unparse_flags()
        _cli._parse(argv)
        assert _cli.configured() == ["--config=c.py:quick", FIELD]
        assert _cli.command() == ["sweep", "--config=c.py:quick", FIELD, "--workdir=out"]


@pytest.mark.parametrize(
    "recorded",
    [["--config=d.py", "--config=c.py:quick"], ["-config=c.py:quick"], ["-config", "c.py:quick"]],
)
def test_of_a_command_that_was_recorded_as_typed_the_last_configuration_counts(recorded):
    assert config_files.named_in(["sweep", *recorded, "--workdir=out"]) == "c.py:quick"
