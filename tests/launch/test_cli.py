"""What every command does with names and files that the system refuses, or that are not UTF-8."""

import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from absl import flags
from absl.testing import flagsaver

from launch import _cli, _distributed, _joining

ROOT = Path(__file__).resolve().parents[2]
LONG = 300 * "x"


@pytest.mark.parametrize(
    "given", [[f"--config={LONG}"], ["--config=configs/quickstart.py", f"--data_dir={LONG}"]]
)
def test_a_name_that_the_system_refuses_is_named_with_its_reason(tmp_path, given):
    command = [sys.executable, "-m", "launch.sweep", *given, f"--workdir={tmp_path / 'out'}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {LONG}: File name too long; accepted: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (IsADirectoryError(21, "Is a directory", b"caf\xe9"), "caf\udce9: Is a directory; acc"),
        (PermissionError(13, "Permission denied", Path("a/b")), "a/b: Permission denied; acc"),
        (BrokenPipeError(32, "Broken pipe"), None),  # of no file: to be seen as it is
        (OSError(9, "Bad file descriptor", 3), None),
        (ValueError("x"), None),
    ],
)
def test_an_error_of_a_file_is_a_mistake_and_no_other_is(error, said):
    found = _cli.refused_file(error)
    assert found is None if said is None else found.startswith(said)


def test_a_file_that_one_of_several_processes_is_refused_costs_one_line(monkeypatch, capsys):
    monkeypatch.setattr(_joining, "connect", lambda *where: SimpleNamespace(is_first=True, index=0))
    monkeypatch.setattr(_distributed, "_LAST", 0.0)
    monkeypatch.setattr(os, "_exit", sys.exit)
    flags.FLAGS.mark_as_parsed()
    with (
        flagsaver.flagsaver(distributed=True),
        pytest.raises(SystemExit) as ended,
        _distributed.joined(),
    ):
        open("nowhere/file")  # noqa: SIM115
    assert ended.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith("error: nowhere/file: No such file or directory; accepted: ")
    assert line.count("\n") == 1


def test_what_is_printed_has_names_of_files_of_any_bytes(monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="utf-8"))
    _cli._print_names_of_any_bytes()
    print(f"wrote {os.fsdecode(b'caf' + bytes([0xE9]))}", flush=True)
    assert printed.getvalue() == b"wrote caf\xe9\n"
