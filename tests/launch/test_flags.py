"""Every command: flags of files and folders are paths, in any spelling."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags

from launch import _cli

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(path.stem for path in (ROOT / "launch").glob("[!_]*.py"))
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

# Prints of each command the flags of files or folders that are read as texts, and whether it has
# imported jax; in a fork each.
_LOOK = """
import importlib, json, os, sys
from absl import flags
from launch import _cli

for command in sys.argv[1:]:
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    importlib.import_module(f"launch.{command}")
    texts = [
        flag.name
        for module, own in flags.FLAGS.flags_by_module_dict().items()
        if module.startswith("launch")
        for flag in own
        if type(flag.parser) in (flags.ArgumentParser, flags.ListParser)
        and {"file", "folder", "folders"} & set(flag.help.lower().split())
    ]
    print(json.dumps([command, texts, "jax" in sys.modules]), flush=True)
    os._exit(0)
"""


def test_flags_of_files_and_folders_are_paths_and_no_command_imports_jax_for_them():
    look = [sys.executable, "-c", _LOOK, *COMMANDS]
    printed = subprocess.run(look, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [*map(json.loads, printed.splitlines())] == [[name, [], False] for name in COMMANDS]


@pytest.mark.parametrize("written", SPELLINGS)
def test_a_path_may_be_spelled_in_any_way(written, monkeypatch):
    monkeypatch.setenv("HOME", "/home/a user")
    for flag in (_cli.WORKDIR, _cli.CONFIG):
        assert flags.FLAGS[flag.name].parser.parse(written) == SPELLINGS[written]


def test_a_configuration_may_lie_anywhere(launch, refused, tmp_path):
    folder = tmp_path / "a:b c" / "\u00e9"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "configs/quickstart.py", folder / "x:y.py")
    for written in (f"{folder}/x:y.py:small", "$HOME/\u00e9/../\u00e9/x:y.py"):
        shown = launch("show", f"--config={written}", "--fields=seed", HOME=str(folder.parent))
        assert f"{written.rpartition('/')[2]}: experiment" in shown.stdout, shown.stderr
    assert "huge" in refused("show", f"--config={folder}/x:y.py:huge")
