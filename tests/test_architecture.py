"""Who may import whom: the contracts of setup.cfg hold, and would be seen to be broken."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lsa_jax", "launch", "benchmarks")

# Private to the whole package, and so for every room of it.
OF_THE_PACKAGE = ("lsa_jax._convolution", "lsa_jax._neural_tangents")


def _lint(tree: Path) -> subprocess.CompletedProcess:
    program = "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"
    return subprocess.run(
        [sys.executable, "-c", program, f"--config={ROOT / 'setup.cfg'}", "--no-cache"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


def _imported(path: Path) -> Iterator[str]:
    """Yields the dotted names of all that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_private(name: str, importer: str) -> bool:
    """Whether a name has an underscore that its importer, a package, does not stand beside."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.startswith("_") and ".".join(parts[:place]) != importer:
            return True
    return False


def foreign_privates(tree: Path) -> list[str]:
    """Returns who imports a name or a module with an underscore of another folder."""
    found = []
    for path in sorted(p for package in PACKAGES for p in (tree / package).rglob("*.py")):
        folder = ".".join(path.relative_to(tree).parent.parts)
        for name in _imported(path):
            own = name.startswith(PACKAGES) and not name.startswith(OF_THE_PACKAGE)
            if own and _is_private(name, folder):
                found.append(f"{path.relative_to(tree)} imports {name}")
    return found


@pytest.fixture
def copy(tmp_path):
    """A copy of the tree, to break."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    return tmp_path


def _append(path: Path, line: str) -> None:
    path.write_text(f"{path.read_text()}\n{line}\n")


def test_imports_go_one_way_and_papers_do_not_import_each_other():
    result = _lint(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "module, line, contract",
    [
        ("kernels/solve/problem.py", "import lsa_jax.models", "One way"),
        ("sweep/points.py", "import lsa_jax.experiments.lsa.numbers", "One way"),
        ("experiments/resnet/numbers.py", "import lsa_jax.experiments.lsa.numbers", "Papers never"),
        (  # which stands above the papers, and may import them
            "experiments/resnet/numbers.py",
            "import lsa_jax.experiments.lazy_rich.papers.settings",
            "Papers never",
        ),
    ],
)
def test_an_import_against_a_contract_is_named(copy, module, line, contract):
    _append(copy / "lsa_jax" / module, line)
    result = _lint(copy)
    broken = [row for row in result.stdout.splitlines() if " BROKEN" in row]
    assert result.returncode == 1 and any(row.startswith(contract) for row in broken)


def test_no_room_imports_what_is_private_to_another():
    assert not foreign_privates(ROOT)


def test_what_is_private_to_another_room_is_named(copy):
    imports = {
        "losses": "from lsa_jax.data import _pictures",
        "steps": "from lsa_jax.data._pictures import photographs",
        "growth": "from lsa_jax.sweep.points import _point_id",
        "loop": "import lsa_jax.data._pictures",
    }
    for module, line in imports.items():
        _append(copy / "lsa_jax" / "training" / f"{module}.py", line)
    found = [line.partition(" ")[0] for line in foreign_privates(copy)]
    assert found == sorted(f"lsa_jax/training/{module}.py" for module in imports)


def _docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns how many lines a function's docstring has."""
    first = node.body[0]
    return first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0


def too_long(tree: Path) -> list[str]:
    """Returns the modules of more than 500 lines, and the functions of more than 60 of code."""
    found = []
    for path in sorted(p for package in PACKAGES for p in (tree / package).rglob("*.py")):
        source = path.read_text()
        sizes = {"": (len(source.splitlines()), 500)}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                sizes[f":{node.name}"] = (node.end_lineno - node.lineno + 1 - _docstring(node), 60)
        of = path.relative_to(tree)
        found += [f"{of}{name} has {n} lines" for name, (n, most) in sizes.items() if n > most]
    return found


def test_functions_and_modules_are_short():
    assert not too_long(ROOT)


def test_what_is_too_long_is_named(copy):
    path = copy / "lsa_jax" / "errors.py"
    lines = len(path.read_text().splitlines())
    _append(path, "def f():\n" + "    f()\n" * 60)
    assert too_long(copy) == ["lsa_jax/errors.py:f has 61 lines"]
    _append(path, "# so long\n" * (500 - lines))
    assert len(too_long(copy)) == 2
