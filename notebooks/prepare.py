"""Runs notebooks and stores their outputs; links all notebooks to Colab.

python notebooks/prepare.py                   # after a change of ADDRESS
python notebooks/prepare.py theory growing    # runs these, too, and stores their outputs
"""

import re
import sys
from pathlib import Path

# The project's address, "https://github.com/OWNER/lsa_jax": badges and set-up cells follow from it.
ADDRESS = ""

FOLDER = Path(__file__).resolve().parent
_BADGE = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"


def colab(name: str, address: str) -> str:
    """Returns the address that opens a notebook in Colab; empty without one of the project."""
    if not address:
        return ""
    where = address.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{where}/blob/main/notebooks/{name}.ipynb"


def link(notebook, name: str, address: str) -> None:
    """Writes a notebook's badge, below its title, and the address in its set-up cell."""
    title, _, text = notebook.cells[0].source.partition("\n")
    text = "\n".join(line for line in text.splitlines() if not line.startswith(_BADGE)).strip()
    badge = f"{_BADGE}({colab(name, address)})" if address else ""
    notebook.cells[0].source = "\n\n".join(part for part in (title, badge, text) if part)
    (setup,) = (cell for cell in notebook.cells if "REPOSITORY =" in cell.source)
    setup.source = re.sub(r'REPOSITORY = ".*?"', f'REPOSITORY = "{address}"', setup.source)


def run(notebook) -> None:
    """Runs a notebook from the first cell to the last; keeps its outputs but not its progress."""
    from nbclient import NotebookClient

    client = NotebookClient(notebook, timeout=1800, kernel_name="python3", record_timing=False)
    client.execute(cwd=FOLDER)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}  # without the version of this machine


def main(names: list[str]) -> None:
    """Links all notebooks, and runs those that are named."""
    import nbformat

    known = [path.stem for path in FOLDER.glob("*.ipynb")]
    if wrong := [name for name in names if name not in known]:
        sys.exit(f"error: there is no notebook {wrong[0]!r}; accepted: {', '.join(sorted(known))}")
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        link(notebook, path.stem, ADDRESS)
        if path.stem in names:
            run(notebook)
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
