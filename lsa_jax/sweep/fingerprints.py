"""Tells whether what is published of a configuration is still what its code would make.

A fingerprint has the settings, and hashes of the sweep's points, of the code that makes its report,
without comments, docstrings and layout, and of the results.
"""

import ast
import hashlib
import io
import json
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsa_jax.reporting import files, papers
from lsa_jax.sweep import config_files, registry
from lsa_jax.sweep.fields import flatten

_ROOT = Path(__file__).resolve().parents[2]
_ROOM = Path("lsa_jax/experiments")
# Modules that all papers share and that decide the contents of a report.
_DECIDE = "claims conditions curves report runs samples statistics".split()
_RULES = {Path(f"lsa_jax/reporting/{name}.py") for name in _DECIDE}

# As one of the changes.
POINTS, CODE_OF_REPORT = "the points of the sweep", "the code of the report"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _strings_whole(source: str) -> Iterator[tokenize.TokenInfo]:
    """Yields the tokens of a source; from Python 3.12 on f-strings come in parts, here as one."""
    lines, depth, first = source.splitlines(keepends=True), 0, (1, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            first = first if depth else token.start
            depth += 1
        elif kind == "FSTRING_END":
            depth -= 1
            if not depth:
                text = _between(lines, first, token.end)
                yield tokenize.TokenInfo(tokenize.STRING, text, first, token.end, token.line)
        elif not depth:
            yield token


def _between(lines: Sequence[str], first: tuple[int, int], end: tuple[int, int]) -> str:
    """Returns what stands between two places, each a row, counted from 1, and a column."""
    rows = list(lines[first[0] - 1 : end[0]])
    rows[-1] = rows[-1][: end[1]]
    rows[0] = rows[0][first[1] :]
    return "".join(rows)


# Where blocks and lines begin and end, by whatever blanks they are indented.
_BLOCKS = {tokenize.INDENT: "<", tokenize.DEDENT: ">"}
_LAYOUT = _BLOCKS | {tokenize.NEWLINE: "\n"}
_NOTHING = (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER)


def code(source: str) -> str:
    """Returns what is left of a source without comments, docstrings and the layout of its lines.

    It is the same text under every version of Python, as a syntax tree's would not be.
    """
    documented = set(_docstring_lines(ast.parse(source)))

    def counts(token: tokenize.TokenInfo) -> bool:
        if token.type in _BLOCKS:  # the first of a block may stand before a docstring
            return True
        return token.type not in _NOTHING and token.start[0] not in documented

    tokens = filter(counts, _strings_whole(source))
    return " ".join(_LAYOUT.get(token.type, token.string) for token in tokens)


def _imported(path: Path, name: str | None = None) -> list[Path]:
    """Returns the modules that one imports from the package, or those that give it a name."""
    found = []
    for node in ast.walk(ast.parse((_ROOT / path).read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        for alias in node.names:
            if name in (None, alias.name):
                choices = [f"{node.module}.{alias.name}", node.module]
                paths = [Path(choice.replace(".", "/") + ".py") for choice in choices]
                found += [path for path in paths if (_ROOT / path).is_file()][:1]
    return found


def report_modules(experiment: str) -> list[Path]:
    """Returns the modules that an experiment's report is made by, sorted.

    The one that has its `make_report`, and what it imports of its paper and of the rules of claims.
    """
    home = _ROOM / experiment / "experiment.py"
    paper = _ROOM / Path(experiment).parts[0]
    to_do, found = _imported(home, "make_report") or [home], set[Path]()
    while to_do:
        path = to_do.pop()
        if path not in found and (paper in path.parents or path in _RULES):
            found.add(path)
            to_do += _imported(path)
    return sorted(found)


def _of(config: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    registry.load_settings(config["experiment"])  # only to refuse what is gone
    sources = [code((_ROOT / path).read_text()) for path in report_modules(config["experiment"])]
    return {
        "settings": files.plain(flatten(config)),
        "points": _digest(json.dumps(files.plain(list(points)), sort_keys=True).encode()),
        "report": _digest("\n".join(sources).encode()),
    }


def of_folder(folder: Path) -> dict[str, Any]:
    """Returns the fingerprint of a finished sweep, with that of its results.

    Raises:
        InputError: its experiment is gone.
    """
    record = files.read_record(folder)
    results = _digest((folder / "results.csv").read_bytes())
    return _of(record["config"], record["sweep"]) | {"results": results}


def now(config: str) -> dict[str, Any]:
    """Returns the fingerprint of what follows `--config=`, as it and its report are today.

    Raises:
        InputError: the file cannot be loaded.
    """
    path, variant = papers.split_config(config)
    module = config_files.load(path)
    found = config_files.config_of(module, variant)
    return _of(found.to_dict(), config_files.sweep_of(module, found))


def _other_setting(there: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """Returns the first setting that has changed; one that is new and at its default has not."""
    settings = registry.load_settings(here["experiment"])
    defaults = files.plain(flatten(settings.default_config().to_dict()))
    for name in {**here, **there}:
        before = there.get(name) if name in there else defaults.get(name)
        if name not in here or here[name] != before:
            return name
    return None


def changed(config: str, published: Mapping[str, Any]) -> list[str]:
    """Returns what has changed since a fingerprint was taken, in words.

    Args:
        config: what follows `--config=`.
        published: its fingerprint, from `of_folder`.

    Raises:
        InputError: its file cannot be loaded.
    """
    if not papers.split_config(config)[0].is_file():
        return ["the configuration is gone"]
    found = now(config)
    words = []
    if setting := _other_setting(published["settings"], found["settings"]):
        words.append(f"the setting {setting}")
    elif found["points"] != published["points"]:
        words.append(POINTS)
    if found["report"] != published["report"]:
        words.append(CODE_OF_REPORT)
    return words
