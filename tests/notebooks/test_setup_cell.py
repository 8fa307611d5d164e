"""The cell that installs the project on Colab, as it stands in every notebook."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))

# The cell's commands are printed; a clone makes the folders that git would.
_HARNESS = """
import os, subprocess, sys

def run(command, check):
    print(command[0] if command[0] == "git" else command[2])
    if command[0] == "git":
        os.makedirs("lsa_jax/lsa_jax")
        open("lsa_jax/lsa_jax/__init__.py", "w").write("NAME = 1")

subprocess.run = run
exec(sys.argv[1])
import lsa_jax
assert lsa_jax.NAME == 1
"""


def _cell(path):
    cells = ("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])
    (cell,) = (cell for cell in cells if "find_spec" in cell)
    return cell


def _commands(cell, cwd):
    """Runs the cell in a new interpreter without installed packages; returns its commands."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-S", "-c", _HARNESS, cell]
    result = subprocess.run(command, cwd=cwd, env=own, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_all_notebooks_set_up_alike():
    assert len({_cell(path) for path in NOTEBOOKS}) == 1


def test_after_a_restart_the_package_is_found_and_not_the_folder_of_its_clone(tmp_path):
    cell = _cell(NOTEBOOKS[0]).replace('REPOSITORY = ""', 'REPOSITORY = "address"')
    assert _commands(cell, tmp_path) == ["git", "pip"]
    assert _commands(cell, tmp_path) == ["pip"]


def test_a_clone_that_is_there_needs_no_address(tmp_path):
    (tmp_path / "lsa_jax" / "lsa_jax").mkdir(parents=True)
    (tmp_path / "lsa_jax" / "lsa_jax" / "__init__.py").write_text("NAME = 1")
    assert _commands(_cell(NOTEBOOKS[0]), tmp_path) == ["pip"]


def test_what_is_installed_is_left_alone(tmp_path):
    (tmp_path / "lsa_jax").mkdir()
    (tmp_path / "lsa_jax" / "__init__.py").write_text("NAME = 1")
    assert _commands(_cell(NOTEBOOKS[0]), tmp_path) == []


def test_without_clone_and_address_the_cell_asks_for_one(tmp_path):
    with pytest.raises(AssertionError, match="set REPOSITORY above"):
        _commands(_cell(NOTEBOOKS[0]), tmp_path)
