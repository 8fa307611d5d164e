"""Settings of all tests: checked types, 8 devices, cheap compilation, no rank promotion."""

import ctypes
import functools
import gc
import inspect
import itertools
import multiprocessing
import os
import runpy
import sys
import tempfile
import types
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, get_args

# Before jax is imported: devices are counted once. Programs of tests are small, so compiling them
# costs more than running them: optimise little, and compile once the programs that tests, the two
# workers and the commands that they start have in common.
_FLAGS = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
if version("jaxlib").startswith("0.10."):
    # Without the emitters that build each fusion through MLIR compiling takes half of the time;
    # later versions have no such choice, and refuse the flag. In one part instead of many, large
    # programs take two thirds of that.
    _FLAGS += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAGS}".strip()
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _compiled = tempfile.TemporaryDirectory(prefix="lsa_jax_compiled_")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
    # Small ones, too: reading one takes a third of its time, and writing it next to nothing.
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
# The threads of two workers' libraries would wait for each other, and use the processors up so.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")

import beartype  # noqa: E402
import jax  # noqa: E402
import jaxtyping  # noqa: E402
import psutil  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")

_FORGET = [jax.clear_caches]
if version("jaxlib").startswith("0.10."):
    # Programs of tests are lowered in one context of MLIR: JAX makes a new one for each, which
    # takes a fifth of the time to lower small ones.
    from jax._src.interpreters import mlir

    mlir.make_ir_context = functools.cache(mlir.make_ir_context)
    _FORGET.append(mlir.make_ir_context.cache_clear)  # it keeps every constant it has seen

# Programs that are traced and kept are many small objects, which would be looked through over and
# over again.
gc.set_threshold(20_000, 20, 20)

# A whole number is accepted where a float is asked for, as static checkers have it. Wrong types are
# a TypeError, as without the checks.
_check = beartype.beartype(
    conf=beartype.BeartypeConf(is_pep484_tower=True, violation_type=TypeError)
)
_checked: dict[tuple, Callable] = {}


def checked(function: Callable) -> Callable:
    """Returns a function with checked types; the check is made at the first call, for all closures.

    jaxtyping asks for two of each function that is defined, most of which a test never calls, and
    hands over stand-ins that have the annotations and no more: those of two closures are the same.
    """
    annotations = tuple(function.__annotations__.items())
    own = (function.__module__, function.__qualname__, function.__code__.co_varnames, annotations)

    made = []

    def check(*arguments: Any, **named: Any) -> Any:
        if not made:  # hashing annotations takes longer than most checks
            if own not in _checked:
                _checked[own] = _check(function)
            made.append(_checked[own])
        return made[0](*arguments, **named)

    return check


def _of_arrays(hint: Any) -> bool:
    """Whether a hint names a shape, or is a text, which may."""
    names_a_shape = type(hint).__module__.startswith("jaxtyping") or isinstance(hint, str)
    return names_a_shape or any(map(_of_arrays, get_args(hint)))


_with_shapes = jaxtyping.jaxtyped
# Of each function; those that are called more often cost more to check than to run.
_CHECKED_CALLS = 200


def _jaxtyped(**options: Any) -> Callable:
    """Decorates as jaxtyping does, but at the first call: most of what is defined is not called.

    Functions without arrays need no shapes, and closures of these are not checked: jaxtyping would
    bind the arguments of each call to names, and closures are defined again and again.
    """

    def decorate(function: Any) -> Any:
        if not isinstance(function, types.FunctionType):
            return _with_shapes(**options)(function)
        shaped = any(map(_of_arrays, function.__annotations__.values()))
        shaped = shaped or inspect.isgeneratorfunction(function)
        if not shaped and (function.__closure__ or not function.__annotations__):
            return function
        made, calls = [], itertools.count()

        @functools.wraps(function)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            if jaxtyping.config.jaxtyping_disable or next(calls) >= _CHECKED_CALLS:
                return function(*arguments, **named)
            if not made:
                made.append(_with_shapes(**options)(function) if shaped else _check(function))
            return made[0](*arguments, **named)

        return wrapped

    return decorate


# From here on the functions of the package check their arguments and results, shapes included.
jaxtyping.jaxtyped = _jaxtyped
jaxtyping.install_import_hook("lsa_jax", f"sys.modules[{__name__!r}].checked")
assert "lsa_jax" not in sys.modules  # it would go unchecked


# Files of half a minute and more that come late by name. Begun last, one of them would leave the
# other worker with nothing to do.
_LONG = {"test_adversary.py", "test_loop.py", "test_replay.py", "test_run.py"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/ anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _LONG)


def pytest_collection_finish() -> None:
    gc.freeze()  # modules stay: they need not be looked through each time


# Beyond so many bytes a worker drops its compiled programs after a file, to stay below 1.6 GB.
_MOST_MEMORY = 1.1e9


@pytest.fixture(autouse=True, scope="session")
def _nothing_waits_for_the_disk():
    # A process that is killed loses nothing that it wrote: only a machine that stops would.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def _figures_do_not_pile_up():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True, scope="module")
def _compiled_programs_do_not_pile_up():
    yield
    if psutil.Process().memory_info().rss > _MOST_MEMORY:
        for forget in _FORGET:
            forget()
        gc.collect()
        if sys.platform == "linux":  # the allocator keeps freed memory otherwise
            ctypes.CDLL(None).malloc_trim(0)


# Half of a short command's time goes by with imports, which need not be done for each.
_LAUNCH = Path(__file__).with_name("forked_launch.py")
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "lsa_jax.experiments.lsa.noise_curves.experiment",
        "lsa_jax.sweep.run",
        "lsa_jax.sweep.catalog",
    ]
    + ["launch._cli", "sklearn.datasets", "matplotlib.pyplot"]
)


class Forked(NamedTuple):
    """A launch script in a process of its own, and the files that it prints to."""

    process: multiprocessing.Process
    stdout: Path
    stderr: Path

    def wait(self) -> tuple[int | None, str, str]:
        """Waits for its end; returns its exit status, standard output and standard error."""
        self.process.join(timeout=300)
        return self.process.exitcode, self.stdout.read_text(), self.stderr.read_text()


@pytest.fixture(scope="session")
def fork(tmp_path_factory):
    """Starts `python -m launch.SCRIPT ARGUMENTS` in a fork of a process that has done the imports.

    A script with a dot in its name is the whole name of a module.

    Tests of imports or of speed start processes of their own.
    """

    def start(script: str, *arguments: object, environment: dict[str, str]) -> Forked:
        said = tmp_path_factory.mktemp("said")
        given = {
            "directory": str(_LAUNCH.parents[1]),
            "command": [script if "." in script else f"launch.{script}", *map(str, arguments)],
            "environment": environment,
            "stdout": str(said / "stdout"),
            "stderr": str(said / "stderr"),
        }
        process = _FORKS.Process(target=runpy.run_path, args=(str(_LAUNCH), given), daemon=True)
        process.start()
        return Forked(process, said / "stdout", said / "stderr")

    return start


@pytest.fixture
def unchecked():
    """For tests that pass forbidden types, to see the package's own errors."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(0)


@pytest.fixture(scope="module")
def quick_compilation():
    """Leaves most optimisations out: for tests that compile a great deal and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def uncounted(monkeypatch):
    """Makes programs of the default device tell no operations, as on the clients of accelerators.

    The CPU asked for by name counts as it does beside an accelerator.
    """
    counted = jax.stages.Lowered.cost_analysis

    def cost_analysis(lowered):
        return counted(lowered) if jax.config.jax_default_device is not None else None

    monkeypatch.setattr(jax.stages.Lowered, "cost_analysis", cost_analysis)
