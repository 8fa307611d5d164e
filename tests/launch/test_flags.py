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
    "cluster": ALL,
    "data": {"data_dir"},
    "doctor": {"workdir"},
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
    "benchmark": {"json", "history"},
    "doctor": {"json"},
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

# Parses each spelling of each flag in a fork for each command; prints the values, which flags are
# texts, and whether jax was imported.
_PARSE = """
import importlib, json, os, sys
from absl import flags
from launch import _cli

names_by_command, spellings = map(json.loads, sys.argv[1:])
for command, names in names_by_command.items():
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    importlib.import_module(f"launch.{command}")
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
    print(json.dumps([command, found, texts, "jax" in sys.modules]), flush=True)
    os._exit(0)
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


@pytest.fixture(scope="module")
def parsed():
    """Returns the values of a command's flags, those that are texts, and whether it imports jax."""
    names = {one: sorted(SHARED[one] | PATHS.get(one, set())) for one in COMMANDS}
    lines = run("-c", _PARSE, json.dumps(names), json.dumps(list(SPELLINGS))).stdout.splitlines()
    return {command: rest for command, *rest in map(json.loads, lines)}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_commands_flags_which_take_any_spelling_of_a_path(command, launch, parsed):
    shown = launch(command, "--help").stdout
    flags_shown = {line.split(":")[0].strip() for line in shown.splitlines()}
    assert {name for name in ALL if f"--{name}" in flags_shown} == SHARED[command]
    assert {f"--{name}" for name in PATHS.get(command, ())} <= flags_shown
    found, texts, imports_jax = parsed[command]
    names = SHARED[command] | PATHS.get(command, set())
    assert found == {name: list(SPELLINGS.values()) for name in names}
    assert not texts, "flags of files or folders that are read as texts"
    assert not imports_jax


def test_a_configuration_may_lie_anywhere(launch, refused, tmp_path):
    folder = tmp_path / "a:b c" / "\u00e9"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "configs/quickstart.py", folder / "x:y.py")
    for written in (f"{folder}/x:y.py:small", "$HOME/\u00e9/../\u00e9/x:y.py"):
        shown = launch("show", f"--config={written}", "--fields=seed", HOME=str(folder.parent))
        assert f"{written.rpartition('/')[2]}: experiment" in shown.stdout, shown.stderr
    assert "huge" in refused("show", f"--config={folder}/x:y.py:huge")
