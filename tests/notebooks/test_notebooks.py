"""Every notebook runs from the first cell to the last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# What Jupyter's own machinery warns about is not ours.
@pytest.mark.filterwarnings("default")
def test_notebook_runs(path, monkeypatch):
    monkeypatch.setenv("LSA_NOTEBOOK_TRAIN", "40")
    monkeypatch.setenv("LSA_NOTEBOOK_EPOCHS", "2")
    monkeypatch.setenv("LSA_NOTEBOOK_WIDTHS", "8")
    # Compiling takes longest: on one device, as in Colab, and as little as can be.
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not committed"
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=path.parent)
