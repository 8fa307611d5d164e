"""A sweep that computes nothing: which programs it would compile, of which shapes, how often.

Everything runs as it would but for what is heavy: functions that are mapped over devices return
zeros of the right shape, kernels' matrices and their solutions are zeros, nothing is written.
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lsa_jax import backend
from lsa_jax.kernels.matrices import programs as tile_programs
from lsa_jax.kernels.matrices.staged import stages_of
from lsa_jax.sweep.experiment import Experiment
from lsa_jax.sweep.points import Point

# Of a device's memory, what tiles of a kernel may take: as `kernels.gram` has it by default.
_SHARE_OF_MEMORY = 0.5
_CPU_LIMIT = 1e9


class Mapped(NamedTuple):
    """A function that is mapped over devices, and what it is called with.

    Attributes:
        name: of the function.
        function: of one device's arrays.
        forms: shapes of its arguments, [devices, ...].
        num_devices: on how many it runs.
        axis_name: what the function calls them together.
        donate: whether the first argument's memory is given away.
    """

    name: str
    function: Callable
    forms: tuple
    num_devices: int
    axis_name: str
    donate: bool


class Matrix(NamedTuple):
    """The matrix of a kernel, tile by tile.

    Attributes:
        name: of the kernel, and the matrix's size.
        stages: of the kernel.
        forms: one tile's rows and columns of examples.
        tile: the program.
    """

    name: str
    stages: Any
    forms: tuple
    tile: tile_programs.TileProgram


class Solve(NamedTuple):
    """A system that the host solves, exactly: nothing is compiled for it."""

    name: str


Program = Mapped | Matrix | Solve


def _shapes(forms: Any) -> Any:
    """Returns a tree's structure, shapes and types, as a key."""
    leaves, structure = jax.tree.flatten(forms)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def _form(array: Any) -> jax.ShapeDtypeStruct:
    array = array if hasattr(array, "dtype") else np.asarray(array)
    dtype = jax.dtypes.canonicalize_dtype(array.dtype) if _is_plain(array.dtype) else array.dtype
    return jax.ShapeDtypeStruct(array.shape, dtype)


def _hollow(array: Any) -> np.ndarray:
    """Returns zeros of an array's shape and type that take no memory."""
    form = _form(array)
    return np.broadcast_to(np.zeros((), form.dtype), form.shape)


def _is_plain(dtype: Any) -> bool:
    return not jnp.issubdtype(dtype, jax.dtypes.extended)


def _zeros(form: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.Array:
    if _is_plain(form.dtype):
        return jax.device_put(np.zeros(form.shape, form.dtype), sharding)
    key = jax.random.key(0)
    return jax.device_put(jnp.broadcast_to(key, form.shape), sharding)


def _given_or_zeros(
    given: dict[Any, jax.Array], form: jax.ShapeDtypeStruct, sharding: NamedSharding
) -> jax.Array:
    found = given.get((form.shape, form.dtype))
    return _zeros(form, sharding) if found is None else found


def _name(function: Callable) -> str:
    """Returns a function's own name, without those of the functions it is made in."""
    return getattr(function, "__qualname__", type(function).__qualname__).rpartition(".")[2]


class DryRun:
    """Takes note of programs; see `backend.noted_by`.

    Programs of equal names and shapes are one.

    Attributes:
        without_data: whether data of the published shapes stand in.
    """

    def __init__(self, *, without_data: bool) -> None:
        """Begins with no program; `without_data` has data of the published shapes stand in."""
        self.without_data = without_data
        self._programs: dict[Any, Program] = {}
        self._calls: dict[Any, float] = {}
        self._weight = 1.0

    @property
    def found(self) -> list[tuple[Program, float]]:
        """Each program, in the order in which they came, and how often it runs."""
        return [(program, self._calls[key]) for key, program in self._programs.items()]

    def each(self, segments: Sequence[int], lengths: Sequence[int]) -> Iterator[int]:
        """Yields one segment of each length, which counts for all of that length."""
        chosen = {length: place for place, length in enumerate(lengths)}
        for length, place in sorted(chosen.items(), key=lambda item: item[1]):
            self._weight *= lengths.count(length)
            yield segments[place]
            self._weight /= lengths.count(length)

    def _note(self, key: Any, program: Program, times: float) -> None:
        self._programs.setdefault(key, program)
        self._calls[key] = self._calls.get(key, 0) + times * self._weight

    def map_devices(
        self, function: Callable, devices: Sequence[jax.Device], axis_name: str, donate: bool
    ) -> Callable:
        """Returns what stands for the mapped function: called, it is noted and gives zeros."""
        sharding = NamedSharding(Mesh(np.array(devices), (axis_name,)), PartitionSpec(axis_name))
        name = _name(function)
        mapped = jax.vmap(function, axis_name=axis_name)
        shapes: dict[Any, Any] = {}  # of the results, by those of the arguments

        def call(*arguments: Any) -> Any:
            forms = jax.tree.map(_form, arguments)
            given_shapes = _shapes(forms)
            if given_shapes not in shapes:
                shapes[given_shapes] = jax.eval_shape(mapped, *forms)
            outputs = shapes[given_shapes]
            known = (name, given_shapes, _shapes(outputs), len(devices), donate)
            program = Mapped(name, function, forms, len(devices), axis_name, donate)
            self._note(known, program, 1)
            # A state comes back as it was: of the right shape, and without a second copy of it.
            given = {
                (leaf.shape, leaf.dtype): leaf
                for leaf in jax.tree.leaves(arguments)
                if isinstance(leaf, jax.Array)
            }
            return jax.tree.map(lambda form: _given_or_zeros(given, form, sharding), outputs)

        return call

    def gram(
        self, kernel: Callable, x1: Any, x2: Any, memory_limit: float | None, dtype: np.dtype
    ) -> np.ndarray:
        """Notes the tiles of a kernel's matrix; returns one of zeros that takes no memory."""
        columns = x1 if x2 is None else x2
        shape = len(x1), len(columns)
        name = _name(kernel)
        known = (name, x1.shape[1:], str(x1.dtype), shape, memory_limit, str(dtype))
        if known not in self._programs:
            example = jax.ShapeDtypeStruct(x1.shape[1:], x1.dtype)
            stages = stages_of(kernel, example)
            free = backend.memory()
            limit = memory_limit or (_CPU_LIMIT if free is None else _SHARE_OF_MEMORY * free)
            count = backend.device_count()
            both = (_hollow(x1), _hollow(columns))
            tile = tile_programs.choose(stages, *both, dtype, limit, count)
            blocks = tuple(
                jax.ShapeDtypeStruct((side, *x1.shape[1:]), x1.dtype) for side in tile.shape
            )
            program = Matrix(f"{name} {shape[0]} x {shape[1]}", stages, blocks, tile)
            self._programs[known] = program
        program = self._programs[known]
        rows, cols = map(math.ceil, np.divide(shape, program.tile.shape))
        self._note(known, program, rows * (rows + 1) // 2 if x2 is None else rows * cols)
        return np.broadcast_to(np.zeros((), dtype), shape)

    def solve(self, gram_train: Any, targets: Any, gram_test: Any) -> np.ndarray:
        """Notes a system that the host solves; returns predictions of zeros."""
        program = Solve(f"Cholesky factorisation of {len(gram_train)} examples")
        self._note(program, program, 1)
        return np.zeros((len(gram_test), np.shape(targets)[1]))


def run(
    experiment: Experiment,
    points: list[Point],
    data_dir: Path | None,
) -> list[tuple[Program, float]]:
    """Runs a sweep dry, within `backend.built_for`.

    Args:
        experiment: whose points these are.
        points: of the sweep.
        data_dir: folder of data sets, read as the sweep reads them; None lets zeros of the
            published shapes stand in.

    Returns:
        Each program, and how often it runs in the whole sweep.

    Raises:
        InputError: data are missing, or what the experiment refuses.
    """
    recorder = DryRun(without_data=data_dir is None)
    groups = experiment.groups(points)
    with tempfile.TemporaryDirectory() as folder, backend.noted_by(recorder):
        data = experiment.load(points, data_dir)
        for done, group in enumerate(groups):
            experiment.run(group, data, Path(folder) / str(done), lambda fraction: None)
    return recorder.found
