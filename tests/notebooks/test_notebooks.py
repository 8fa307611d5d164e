"""Every notebook runs from the first cell to the last."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


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
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not committed"
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=path.parent)
