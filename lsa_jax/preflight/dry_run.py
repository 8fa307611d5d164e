"""A dry run of a sweep: the programs that it would compile, their shapes and numbers of calls.

Everything runs as in a sweep except the heavy parts: functions that are mapped over devices return
zeros of the right shape, kernels' matrices and their solutions are zeros, nothing is written.
"""

import contextlib
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.extend.core
import numpy as np

from lsa_jax import backend
from lsa_jax.kernels.infinite import recursion
from lsa_jax.kernels.infinite.kernel import InfiniteKernel
from lsa_jax.kernels.matrices import programs as tile_programs
from lsa_jax.kernels.matrices.staged import stages_of, unwrapped
from lsa_jax.sweep.experiment import Experiment
from lsa_jax.sweep.points import Point

# The share of a device's memory for tiles of a kernel: the default of `kernels.gram`.
_SHARE_OF_MEMORY = 0.5
_CPU_LIMIT = 1e9

# Examples a side of the tile whose operations are counted, of a kernel without a loop of its own.
_FEW = 8


class Mapped(NamedTuple):
    """A function that is mapped over devices, and its arguments."""

    name: str
    function: Callable  # of one device's arrays
    forms: tuple  # shapes of its arguments, [devices, ...]
    traced: jax.extend.core.ClosedJaxpr  # mapped over an axis of devices
    num_devices: int
    axis_name: str  # of the devices, in the function
    donate: bool  # whether the first argument's memory is given away


class Matrix(NamedTuple):
    """The matrix of a kernel, tile by tile; its name has the kernel and the size."""

    name: str
    stages: Any  # of the kernel
    forms: tuple  # rows and columns of examples of a block whose operations are counted
    tile: tile_programs.TileProgram


class Solve(NamedTuple):
    """Work of the host, such as a system's exact solution: nothing is compiled for it."""

    name: str


Program = Mapped | Matrix | Solve


def _shapes(forms: Any) -> Any:
    """Returns a tree's structure, shapes and types, as a key."""
    leaves, structure = jax.tree.flatten(forms)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def _name(function: Callable) -> str:
    """Returns a function's own name; of one called "kernel", that of the function that makes it."""
    while (inner := getattr(function, "func", getattr(function, "__wrapped__", None))) is not None:
        function = inner  # of a partial or a wrapper
    outer = getattr(function, "__qualname__", type(function).__qualname__).split(".<locals>.")
    *makers, name = (part.rpartition(".")[2] for part in outer)
    return makers[-1].strip("_") if name == "kernel" and makers else name


def _counted_sides(
    kernel: Callable, example: jax.ShapeDtypeStruct, tile_shape: tuple[int, int]
) -> tuple[int, int]:
    """Returns the sides of a block whose operations times the number of blocks are the tile's.

    At infinite width it is the block of the kernel's own loop, which fills a TPU's lanes.
    """
    inner, settings = unwrapped(kernel)
    if isinstance(inner, InfiniteKernel) and inner.stages(example, **settings) is not None:
        return recursion.tile_sides(inner.steps, example.shape, *tile_shape)
    return min(_FEW, tile_shape[0]), min(_FEW, tile_shape[1])


class DryRun:
    """Notes programs instead of running them; see `backend.noted_by`.

    Programs of equal names and shapes are one; so are tiles of kernels whose blocks are traced to
    equal texts. `without_data` has zeros of the published shapes stand in for data.
    """

    def __init__(self, *, without_data: bool) -> None:
        self.without_data = without_data
        self._programs: dict[Any, Program] = {}
        self._calls: dict[Any, float] = {}
        self._weight = 1.0

    @contextlib.contextmanager
    def counted(self, times: float) -> Iterator[None]:
        """Counts each program that is noted within it so many times."""
        self._weight *= times
        yield
        self._weight /= times

    @property
    def found(self) -> list[tuple[Program, float]]:
        """Each program, in the order of their first calls, and its number of calls."""
        return [(program, self._calls[key]) for key, program in self._programs.items()]

    def each(self, segments: Sequence[int], lengths: Sequence[int]) -> Iterator[int]:
        """Yields one segment of each length, counted as often as that length occurs."""
        chosen = {length: place for place, length in enumerate(lengths)}
        for length, place in sorted(chosen.items(), key=lambda item: item[1]):
            with self.counted(lengths.count(length)):
                yield segments[place]

    def note(self, key: Any, program: Program, times: float) -> None:
        """Notes calls of a program; those with equal keys are one program."""
        self._programs.setdefault(key, program)
        self._calls[key] = self._calls.get(key, 0) + times * self._weight

    def map_devices(
        self, function: Callable, devices: Sequence[jax.Device], axis_name: str, donate: bool
    ) -> Callable:
        """Returns a function that notes each call of the mapped one and returns zeros."""
        name = _name(function)
        mapped = jax.vmap(function, axis_name=axis_name)
        known: dict[Any, tuple[Mapped, Any, Any]] = {}  # by the shapes of the arguments

        def call(*arguments: Any) -> Any:
            forms = jax.eval_shape(lambda *given: given, *arguments)
            given = _shapes(forms)
            if given not in known:
                traced, outputs = jax.make_jaxpr(mapped, return_shape=True)(*forms)
                program = Mapped(name, function, forms, traced, len(devices), axis_name, donate)
                key = (name, given, _shapes(outputs), len(devices), donate)
                known[given] = program, outputs, key
            program, outputs, key = known[given]
            self.note(key, program, 1)
            return jax.tree.map(backend.hollow, outputs)

        return call

    def gram(
        self, kernel: Callable, x1: Any, x2: Any, memory_limit: float | None, dtype: np.dtype
    ) -> np.ndarray:
        """Notes the tiles of a kernel's matrix; returns one of zeros that takes no memory."""
        columns = x1 if x2 is None else x2
        shape = len(x1), len(columns)
        example = jax.ShapeDtypeStruct(x1.shape[1:], x1.dtype)
        stages = stages_of(kernel, example)
        prepare, between, given = stages
        one = backend.hollow(example, (1,))
        text = str(jax.make_jaxpr(lambda x: between(*given, *[prepare(*given, x)] * 2))(one))
        text = re.sub("0x[0-9a-f]+", "", text)  # without places in memory
        known = (text, shape, memory_limit, str(dtype))
        if known not in self._programs:
            free = backend.memory()
            limit = memory_limit or (_CPU_LIMIT if free is None else _SHARE_OF_MEMORY * free)
            count = backend.device_count()
            both = (backend.hollow(x1), backend.hollow(columns))
            tile = tile_programs.choose(stages, *both, dtype, limit, count)
            blocks = tuple(
                jax.ShapeDtypeStruct((side, *example.shape), x1.dtype)
                for side in _counted_sides(kernel, example, tile.shape)
            )
            name = f"{_name(kernel)} {shape[0]} x {shape[1]}"
            self._programs[known] = Matrix(name, stages, blocks, tile)
        program = self._programs[known]
        rows, cols = map(math.ceil, np.divide(shape, program.tile.shape))
        self.note(known, program, rows * (rows + 1) // 2 if x2 is None else rows * cols)
        return np.broadcast_to(np.zeros((), dtype), shape)

    def solve(self, gram_train: Any, targets: Any, gram_test: Any) -> np.ndarray:
        """Notes a system that the host solves; returns predictions of zeros."""
        program = Solve(f"Cholesky factorisation of {len(gram_train)} examples")
        self.note(program, program, 1)
        return np.zeros((len(gram_test), np.shape(targets)[1]))


def run(
    experiment: Experiment,
    points: list[Point],
    data_dir: Path | None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[tuple[Program, float]]:
    """Runs a sweep dry, within `backend.built_for`; returns its programs and numbers of calls.

    Of groups that differ in their seeds alone one is run, and counted for all. Data are read from
    `data_dir`; None stands for zeros of the published shapes. `progress` is called with the
    numbers of groups that are done and of all, one of each kind.

    Raises:
        InputError: data are missing, or the experiment refuses its input.
    """
    recorder = DryRun(without_data=data_dir is None)
    kinds: dict[str, list[list[Point]]] = {}
    for group in experiment.groups(points):
        if experiment.on_host(group[0].config):
            program = Solve(f"a point of {group[0].config.experiment}")
            recorder.note(program, program, len(group))
        else:
            kinds.setdefault(_kind(group), []).append(group)
    if not kinds:
        return recorder.found
    # Zeros that stand in for data have no spread to divide by.
    quiet = np.errstate(divide="ignore", invalid="ignore")
    with tempfile.TemporaryDirectory() as folder, backend.noted_by(recorder), quiet:
        data = experiment.load(points, data_dir)
        for done, groups in enumerate(kinds.values()):
            progress(done, len(kinds))
            with recorder.counted(len(groups)):
                experiment.run(groups[0], data, Path(folder) / str(done), lambda fraction: None)
    return recorder.found


def _kind(group: list[Point]) -> str:
    """Returns a key of the shapes of a group's programs: all settings, with seeds numbered."""
    # Numbered by field in order of appearance, as the number of different seeds matters.
    seeds: dict[str, dict[Any, int]] = {}

    def plain(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(f"{name}.{key}", member) for key, member in value.items()}
        if re.search(r"[._]seed$", name):
            known = seeds.setdefault(name, {})
            return known.setdefault(value, len(known))
        return value

    return repr([plain("", point.config.to_dict()) for point in group])
