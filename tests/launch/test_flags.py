"""Every command: --help has its own flags, and flags of files and folders take any spelling."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(path.stem for path in (ROOT / "launch").glob("[!_]*.py"))
ALL = {"config", "workdir", "data_dir"}
# The flags of all commands that each one reads, and its own that take a file or a folder.
SHARED = {
    "benchmark": set(),
    "data": {"data_dir"},
    "groups": {"workdir", "data_dir"},
    "list": set(),
    "preflight": {"config", "data_dir"},
    "report": {"workdir"},
    "reproduce": {"workdir", "data_dir"},
    "run": ALL,
    "show": {"config"},
    "slurm": ALL,
    "sweep": ALL,
    "synsets": set(),
    "watch": {"workdir"},
}
PATHS = {
    "benchmark": {"json"},
    "list": {"configs", "gallery"},
    "preflight": {"json", "calibrate"},
    "reproduce": {"configs", "gallery", "reports"},
    "synsets": {"data_noun", "output"},
    "watch": {"html"},
}
SPELLINGS = {
    "~": "/home/a user",
    "~/x": "/home/a user/x",
    "~/x/": "/home/a user/x",
    "$HOME/x": "/home/a user/x",
    "${HOME}/x/": "/home/a user/x",
    "runs/x/": "runs/x",
    "./x": "./x",
    "../x": "../x",
    "/a b/c:d/\u00e9/x": "/a b/c:d/\u00e9/x",
    "x$y~z": "x$y~z",
    "/": "/",
}

# Parses each spelling of each flag; prints the values, and which flags are texts.
_PARSE = """
import importlib, json, sys
from absl import flags

importlib.import_module(f"launch.{sys.argv[1]}")
names, spellings = json.loads(sys.argv[2])
found = {}
for name in names:
    for spelling in spellings:
        flags.FLAGS.unparse_flags()
        flags.FLAGS(["x", f"--{name}={spelling}"])
        value = flags.FLAGS[name].value
        found.setdefault(name, []).append(value[0] if isinstance(value, list) else value)
texts = [
    flag.name
    for module, own in flags.FLAGS.flags_by_module_dict().items()
    if module.startswith("launch")
    for flag in own
    if type(flag.parser) in (flags.ArgumentParser, flags.ListParser)
    and {"file", "folder", "folders"} & set(flag.help.lower().split())
]
print(json.dumps([found, texts, "jax" in sys.modules]))
"""


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": "/home/a user", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_commands_are_listed():
    assert set(SHARED) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_the_flags_that_a_command_reads(command):
    shown = run("-m", f"launch.{command}", "--help").stdout
    flags_shown = {line.split(":")[0].strip() for line in shown.splitlines()}
    assert {name for name in ALL if f"--{name}" in flags_shown} == SHARED[command]
    assert {f"--{name}" for name in PATHS.get(command, ())} <= flags_shown


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_of_files_and_folders_take_any_spelling(command):
    names = sorted(SHARED[command] | PATHS.get(command, set()))
    found, texts, imports_jax = json.loads(
        run("-c", _PARSE, command, json.dumps([names, list(SPELLINGS)])).stdout
    )
    assert found == {name: list(SPELLINGS.values()) for name in names}
    assert not texts, "flags of files or folders that are read as texts"
    assert not imports_jax


@pytest.mark.parametrize("variant", ["", ":small"])
def test_a_configuration_may_lie_anywhere(variant, tmp_path):
    folder = tmp_path / "a:b c" / "\u00e9"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "configs/quickstart.py", folder / "x:y.py")
    for written in (f"{folder}/x:y.py", "~/\u00e9/x:y.py", "$HOME/\u00e9/../\u00e9/x:y.py"):
        arguments = ("-m", "launch.show", f"--config={written}{variant}", "--fields=seed")
        shown = run(*arguments, HOME=str(folder.parent))
        assert shown.returncode == 0, shown.stderr
        assert f"x:y.py{variant}: experiment" in shown.stdout
    for written in ("x:huge", "huge"):
        refused = run("-m", "launch.show", f"--config={folder}/x:y.py:{written}")
        assert refused.returncode == 2 and written in refused.stderr
