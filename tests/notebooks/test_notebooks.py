"""Every notebook runs, has its outputs, and opens in Colab where the project's address is set."""

import copy
import importlib.util
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
_SPEC = importlib.util.spec_from_file_location("prepare", FOLDER / "prepare.py")
prepare = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(prepare)


def _read(path):
    return nbformat.read(path, as_version=4)


@pytest.mark.documents
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# Warnings of Jupyter's own machinery are not ours.
@pytest.mark.filterwarnings("default")
def test_notebook_runs(path, monkeypatch):
    monkeypatch.setenv("LSA_NOTEBOOK_TRAIN", "40")
    monkeypatch.setenv("LSA_NOTEBOOK_EPOCHS", "2")
    monkeypatch.setenv("LSA_NOTEBOOK_WIDTHS", "8")
    monkeypatch.setenv("LSA_NOTEBOOK_STEPS", "40")
    monkeypatch.setenv("LSA_NOTEBOOK_TOKENS", "40")
    # On one device, as in Colab, and otherwise as the tests, whose compiled programs it can share.
    flags = os.environ["XLA_FLAGS"].replace("device_count=8", "device_count=1")
    monkeypatch.setenv("XLA_FLAGS", flags)
    NotebookClient(_read(path), timeout=300, kernel_name="python3").execute(cwd=path.parent)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_of_one_run_and_of_no_machine(path):
    cells = [cell for cell in _read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [out for cell in cells for out in cell.outputs]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not [out for out in outputs if out.output_type == "error"]
    texts = [out.get("text", "") + out.get("data", {}).get("text/plain", "") for out in outputs]
    local = re.compile(r"(^|[\s'\"(])/\w+/\w|\w:\\|site-packages", re.MULTILINE)
    assert not [text for text in texts if local.search(text)]
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_badge_and_set_up_cell_agree_with_the_address_that_is_set_once(path):
    notebook = _read(path)
    again = copy.deepcopy(notebook)
    prepare.link(again, path.stem, prepare.ADDRESS)
    assert again == notebook, "python notebooks/prepare.py"
    prepare.link(again, path.stem, "https://github.com/someone/lsa_jax")
    badge = f"/github/someone/lsa_jax/blob/main/notebooks/{path.name})"
    assert again.cells[0].source.count(badge) == 1
    clones = [c.source for c in again.cells if "git" in c.source and "clone" in c.source]
    assert 'REPOSITORY = "https://github.com/someone/lsa_jax"' in clones[0] and len(clones) == 1
    prepare.link(again, path.stem, prepare.ADDRESS)
    assert again == notebook
