"""Mutation testing: changes a module in one place at a time, and says which changes no test sees.

    pip install -e '.[test,mutation]'
    python tests/mutation lsa_jax/kernels/solve/spectral.py --sample=40

The tests are those beside the module: tests/.../test_MODULE.py and test_FOLDER.py, and what imports
it in the same room and in tests/red_team; `--tests` names others. All of this happens in a copy of
the checkout. Tests run once under coverage; then each mutant faces only the tests that reach its
line, shortest first, up to the first that fails. Interpreters are forked from one that has imported
the libraries, which makes it about two seconds a mutant. A mutant that takes much longer than the
tests do counts as caught.

Mutants that change nothing anyone could see are listed with the reason in equivalent.txt, and are
left out of the score, which goes into scores.md; so are those of `strict` in zip and of the digits
that a table shows.
"""

import argparse
import ast
import hashlib
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mutants import Mutant, is_unseen, mutants_of
from scores import Score, share_of, write

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.txt")

# Imported once, before forking; none of them starts a thread or a device.
_LIBRARIES = (
    "beartype jax jax.numpy jax.experimental.multihost_utils jaxtyping flax.linen optax pandas "
    "hypothesis matplotlib.pyplot ml_collections numpy PIL.Image pytest scipy.linalg "
    "scipy.optimize scipy.special scipy.stats sklearn.linear_model absl.app coverage tqdm xdist "
    "orbax.checkpoint"
).split()

# Tests of all modules of a folder that have the name of none, or lie in another room.
_OF_FOLDERS = {
    "lsa_jax/kernels/infinite": (
        "tests/kernels/infinite/test_recursion.py",
        "tests/models/test_layers.py",
        "tests/models/test_network.py",
    ),
    "lsa_jax/kernels/solve": ("tests/kernels/solve/test_memory.py",),
}

_QUIET = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")

# What a mutant may take: so many times as long as its tests did, and then some for start-up.
_PATIENCE, _START = 5, 60.0


class Reach(NamedTuple):
    """Which tests run which line of the module, and how long each takes.

    Attributes:
        tests: node ids by line. A fixture's lines are run by all tests of its file.
        seconds: by node id.
    """

    tests: dict[int, set[str]]
    seconds: dict[str, float]


def tests_beside(module: Path) -> list[Path]:
    """Returns the test files of a module, relative to the root like itself."""
    inside = module.relative_to("lsa_jax")
    name = ".".join(module.with_suffix("").parts)
    parent, _, last = name.rpartition(".")
    imports = re.compile(
        rf"(from|import) {re.escape(name)}\b|from {re.escape(parent)} import [^\n]*\b{last}\b"
        rf"|from {re.escape(parent)} import \([^)]*\b{last}\b"
    )
    depth = 2 if inside.parts[0] == "experiments" else 1
    rooms = [Path("tests", *inside.parts[:depth]), Path("tests", "red_team")]
    files = [path for room in rooms for path in sorted((ROOT / room).rglob("test_*.py"))]
    named = [f"test_{module.stem}.py", f"test_{module.parent.name}.py"]
    found = [path for path in files if ROOT / rooms[0] in path.parents and path.name in named]
    found += [path for path in files if path not in found and imports.search(path.read_text())]
    if not found:  # all of the nearest folder
        near = ROOT / "tests" / inside.parent
        while not list(near.glob("test_*.py")):
            near = near.parent
        found = sorted(near.glob("test_*.py"))
    of_folder = [ROOT / name for name in _OF_FOLDERS.get(str(module.parent), ())]
    return [path.relative_to(ROOT) for path in dict.fromkeys([*found, *of_folder])]


def copy_of_checkout(directory: Path) -> Path:
    """Copies what git tracks, and what it would, and returns where it lies."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    )
    for name in listed.stdout.decode().splitlines():
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    return directory


class Chosen:
    """A plug-in of pytest that runs some tests alone, in the order given."""

    def __init__(self, node_ids: Sequence[str]):
        self._rank = {node_id: rank for rank, node_id in enumerate(node_ids)}

    def pytest_collection_modifyitems(self, config, items) -> None:
        items[:] = [item for item in items if item.nodeid in self._rank]
        items.sort(key=lambda item: self._rank[item.nodeid])


class Watch:
    """A plug-in of pytest that notes who runs which line, and for how long."""

    def __init__(self, coverage):
        self._coverage = coverage
        self.seconds = {}

    def pytest_runtest_setup(self, item) -> None:
        import jax

        jax.clear_caches()  # each test traces what it uses
        self._coverage.switch_context(f"{item.nodeid.partition('::')[0]}::")

    def pytest_runtest_call(self, item) -> None:
        self._coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def _pytest(arguments: Sequence[str], plugins: Sequence) -> int:
    import pytest

    return int(pytest.main(["-n0", "-q", *_QUIET, *arguments], plugins=plugins))


def _watched(module: Path, files: Sequence[str], answer: Path) -> int:
    """Runs tests under coverage and writes what a `Reach` needs."""
    from coverage import Coverage

    coverage = Coverage(data_file=None, include=[str(Path(module).resolve())], config_file=False)
    watch = Watch(coverage)
    coverage.start()
    code = _pytest(files, [watch])
    coverage.stop()
    lines = coverage.get_data().contexts_by_lineno(str(Path(module).resolve()))
    answer.write_text(json.dumps({"lines": lines, "seconds": watch.seconds}))
    return code


def _forked(work, log: Path, limit: float) -> int | None:
    """Returns the exit status of a function in a process of its own; None beyond the limit.

    That is one of a core's seconds, as others may use the machine; of the clock's it is 20 times.
    """
    child = os.fork()
    if not child:
        code = 99
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 1))
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = work()
        except BaseException:  # told in the log; a fork must not go on as its parent does
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + 20 * limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            over = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
            return None if over else os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def reach_of(module: Path, files: Sequence[Path], scratch: Path) -> Reach:
    """Runs the tests as they are, which must pass, and returns who runs what."""
    answer, log = scratch / "reach.json", scratch / "log.txt"
    names = [str(file) for file in files]
    if code := _forked(lambda: _watched(module, names, answer), log, limit=3600.0):
        raise SystemExit(f"The tests fail without any mutant ({code}):\n{log.read_text()[-3000:]}")
    found = json.loads(answer.read_text())
    by_file = {}
    for node_id in found["seconds"]:
        by_file.setdefault(node_id.partition("::")[0] + "::", set()).add(node_id)
    every = set(found["seconds"])
    tests = {}
    for line, contexts in found["lines"].items():
        groups = (by_file.get(c, {c}) if c else every for c in contexts)
        tests[int(line)] = set().union(*groups) & every
    return Reach(tests, found["seconds"])


def _statement(source: str, line: int) -> range:
    """Returns the lines of the innermost statement around a line, of its head if it has a body."""
    best = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt):
            continue
        end = node.body[0].lineno - 1 if getattr(node, "body", None) else node.end_lineno
        if node.lineno <= line <= max(end, node.lineno):
            best = range(node.lineno, max(end, node.lineno) + 1)
    return best


def fate_of(mutant: Mutant, module: Path, source: str, reach: Reach, scratch: Path) -> str:
    """Returns "caught", "too slow", "not reached" or "survived"."""
    lines = _statement(source, mutant.line)
    tests = set().union(*(reach.tests.get(line, set()) for line in lines))
    if not tests:
        return "not reached"
    ordered = sorted(tests, key=lambda node_id: reach.seconds[node_id])
    files = sorted({node_id.partition("::")[0] for node_id in ordered})
    for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
        compiled.unlink()
    module.write_text(mutant.source)
    limit = _PATIENCE * sum(reach.seconds[node_id] for node_id in ordered) + _START
    log = scratch / "log.txt"
    code = _forked(lambda: _pytest(["-x", *files], [Chosen(ordered)]), log, limit)
    module.write_text(source)
    if code is None:
        return "too slow"
    if code == 5:
        raise SystemExit(f"No tests were run:\n{log.read_text()[-3000:]}")
    return "survived" if code == 0 else "caught"


def known_equivalents(module: Path) -> set[tuple[str, str]]:
    """Returns the pairs (before, after) that equivalent.txt lists for a module."""
    known, here, before = set(), False, ""
    for line in EQUIVALENT.read_text().splitlines():
        if line.startswith("lsa_jax/"):
            here = line == str(module)
        elif here and line.startswith("- "):
            before = line[2:]
        elif here and line.startswith("+ "):
            known.add((before, line[2:]))
    return known


def _start(directory: Path) -> None:
    """Makes this process one whose forks run tests in a folder."""
    os.chdir(directory)
    kept = directory.parent / "compiled"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(kept))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["MPLBACKEND"] = "agg"
    os.environ["PYTHONPATH"] = str(directory)
    sys.path[:] = [str(directory), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
    for name in _LIBRARIES:
        __import__(name)


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("module", type=Path, help="such as lsa_jax/training/losses.py")
    parser.add_argument("--tests", help="test files, with commas between; else those beside it")
    parser.add_argument("--sample", type=int, default=40, help="mutants to draw; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument(
        "--record", type=Path, help="a file that keeps what was caught: it is not tried again"
    )
    options = parser.parse_args(arguments)
    options.record = options.record and options.record.resolve()
    if not (ROOT / options.module).is_file():
        parser.error(f"{options.module} is no file below {ROOT}")
    named = [Path(name) for name in options.tests.split(",")] if options.tests else []
    options.files = named or tests_beside(options.module)
    return options


def main() -> None:
    options = options_of()
    module, record = options.module, options.record
    source = (ROOT / module).read_text()
    listed = known_equivalents(module)
    found, total = mutants_of(source, options.sample, options.seed)
    drawn = [m for m in found if (m.before, m.after) not in listed and not is_unseen(m)]
    kept = set(json.loads(record.read_text())) if record and record.exists() else set()
    print(f"{module}: {len(found)} of {total} mutants, {len(found) - len(drawn)} equivalent")
    print("tests:", *options.files, flush=True)
    missed, started = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lsa_jax_mutation_") as scratch:
        scratch = Path(scratch)
        _start(copy_of_checkout(scratch / "checkout"))
        reach = reach_of(module, options.files, scratch)
        print(f"{len(reach.seconds)} tests pass in {time.monotonic() - started:.0f} s", flush=True)
        sys.dont_write_bytecode = True
        for mutant in drawn:
            name = hashlib.sha256(mutant.source.encode()).hexdigest()
            fate = "caught" if name in kept else fate_of(mutant, module, source, reach, scratch)
            if fate in ("caught", "too slow"):
                kept.add(name)
            else:
                missed += 1
                lines = f"- {mutant.before}\n+ {mutant.after}"
                print(f"{fate}, line {mutant.line}\n{lines}", flush=True)
            if record:
                record.write_text(json.dumps(sorted(kept)))
    score = Score(total, len(drawn), len(drawn) - missed)
    write(str(module), score)
    seconds = f"{time.monotonic() - started:.0f} s"
    print(f"| {module} | {score.caught} of {score.tried} | {share_of(score)} | {seconds} |")


if __name__ == "__main__":
    main()
