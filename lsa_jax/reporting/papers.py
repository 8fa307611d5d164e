"""The papers and their configurations in order."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

from lsa_jax.errors import InputError


class Paper(NamedTuple):
    """A work, and the folders of configurations that hold its own."""

    title: str
    folders: tuple[str, ...]


BEYOND = "beyond"  # has the configurations outside the other papers' folders
PAPERS = {
    "lsa": Paper("Karp et al., Local Signal Adaptivity (NeurIPS 2021)", ("lsa",)),
    "feature_learning": Paper(
        "Shi, Wei and Liang, Feature Learning (ICLR 2022)", ("feature_learning",)
    ),
    "resnet": Paper("Allen-Zhu and Li, What Can ResNet Learn (NeurIPS 2019)", ("resnet",)),
    "stability": Paper("Karp's thesis (2024), chapter 2: stability", ("stability",)),
    "transformers": Paper(
        "Karp's thesis (2024), chapters 4 and 5: Transformers", ("transformers", "growing")
    ),
    BEYOND: Paper("Beyond the papers", ()),
}
VARIANTS = {"small": ":small", "full": "", "quick": ":quick"}
# First words of configurations' names, in the order in which they are run; others come last.
_KINDS = ("fig", "table", "theorem", "lemma")


def split_config(named: str) -> tuple[Path, str]:
    """Splits the value of `--config` into its file and its variant; "" is no variant.

    Names of files and folders may have colons: the variant follows the last ".py:".
    """
    found = re.fullmatch(r"(.*\.py):([^/]*)", named)
    if found is None and not named.endswith(".py"):
        found = re.fullmatch(r"(.*):([^/:]*)", named)  # a file whose ending was forgotten
    if found is None or Path(named).is_file():
        return Path(named), ""
    return Path(found[1]), found[2]


def _place(path: Path) -> tuple:
    """Returns a key that sorts configurations by kind, then with numbers in their order."""
    kinds = [kind for kind in _KINDS if path.stem.startswith(kind)]
    parts = re.split(r"(\d+)", path.stem)
    return (
        _KINDS.index(kinds[0]) if kinds else len(_KINDS),
        [int(part) if part.isdigit() else part for part in parts],
    )


def item_and_claim(path: Path) -> tuple[str, str]:
    """Returns a configuration's figure or table and its claim: the first line of its docstring."""
    try:
        docstring = ast.get_docstring(ast.parse(path.read_bytes()))
    except (SyntaxError, ValueError):  # bytes of no text are either, by version
        docstring = None  # its command will say so
    item, _, about = (docstring or path.stem).splitlines()[0].partition(": ")
    return item.removesuffix("."), about


def owner(folder: str) -> str:
    """Returns the paper whose configurations a folder of this name holds."""
    return next((name for name, paper in PAPERS.items() if folder in paper.folders), BEYOND)


def configurations(paper: str, configs: Path) -> list[Path]:
    """Returns a paper's configurations, in the order in which they are run.

    Raises:
        InputError: there is no folder of them, or none in it.
    """
    folders = [configs / name for name in PAPERS[paper].folders]
    if paper == BEYOND:
        others = (path for path in sorted(configs.glob("*/")) if owner(path.name) == BEYOND)
        folders = [configs, *others]
    paths = [path for folder in folders for path in sorted(folder.glob("*.py"), key=_place)]
    if not paths:
        raise InputError(
            f"--configs={configs} holds no {(PAPERS[paper].folders or ('',))[0]}/*.py; accepted: "
            "the folder configs of the project, or one laid out like it"
        )
    return paths
