"""Measures of lazy and rich along training: when they are taken, on what, and what they cost.

They are taken at the start, at the end and at steps evenly spaced on a logarithmic scale, as far as
the run stops there, on one fixed sub-sample of its training examples. Training does not see them: a
run ends with the same bits with and without.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax import backend
from lsa_jax.checks import one_of, require
from lsa_jax.reporting.measure_names import OF_WEIGHTS
from lsa_jax.training import measures
from lsa_jax.training.measure_checks import check_alone
from lsa_jax.training.measures import MEASURES, OF_KERNELS, tangent_kernel

VELOCITY = "kernel_velocity"
NAMES = (*MEASURES, VELOCITY)

# Of training's operations, what measuring may take where the number of examples is left open. On
# CPUs its operations take up to twice the time of training's: a tenth of the time in all.
SHARE = 0.05
_FEWEST, _MOST = 16, 128

# What starting the programs of one measuring takes, in operations that could be done meanwhile.
_START = 5e7


def _itself(params: PyTree) -> PyTree:
    return params


class Measuring(NamedTuple):
    """What is measured along a run beside its losses.

    Attributes:
        names: of `NAMES`; none measures nothing.
        examples: training examples that it is measured on, at steps a factor of two apart; None
            takes a power of two, 16 to 128, for which measuring takes a tenth of training's time,
            about. Where 16 take more, steps are a factor of four apart, or start and end alone.
        apply: the network, `(params, x [n, ...]) -> [n, c]`, each example by itself; None takes
            that which is trained.
        targets: of what is fetched as targets, those that kernels are aligned with; None takes all.
        network: `(parameters that are trained) -> the network's`.
    """

    names: tuple[str, ...] = ()
    examples: int | None = None
    apply: Callable | None = None
    targets: Callable[[Array], Array] | None = None
    network: Callable[[PyTree], PyTree] = _itself


NOTHING = Measuring()


class Cost(NamedTuple):
    """What measuring took.

    Attributes:
        examples: training examples that it was done on; 0 for measures of the weights alone.
        share: its time over that of training, compilation left out of both; None where this process
            did too little to tell.
    """

    examples: int
    share: float | None


def log_spaced(marks: Sequence[int], factor: int | None = 2) -> list[int]:
    """Returns those of increasing marks at which measures are taken.

    The first and the last, and the first at or above each power of a factor; None for those alone.
    """
    marks, chosen, power = list(marks), {marks[0], marks[-1]}, 1
    while factor is not None and power <= marks[-1]:
        chosen.add(next(mark for mark in marks if mark >= power))
        power *= factor
    return sorted(chosen)


def subsample(num_examples: int, count: int) -> Array:
    """Returns the examples that measures are taken on: the same for every run, in a random order.

    Data sets may lie class by class.
    """
    return jax.random.permutation(jax.random.key(0), num_examples)[:count]


def affordable(
    apply: Callable, params: PyTree, example: Any, marks: Sequence[int], seen: int
) -> tuple[int, list[int]]:
    """Returns examples and marks that measuring takes no more than `SHARE` of training for.

    Where none do, the fewest of both. Training takes about three passes through the network for an
    example; the kernel of a tile two for each of its examples and outputs c, and n^2 c P
    operations.

    Args:
        apply: `(params, x [n, ...]) -> [n, c]`.
        params: of one replica, arrays or their shapes.
        example: one input, or its shape.
        marks: at which the run stops, increasing.
        seen: examples that a replica is trained on, in all.
    """
    form = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
    outputs = jax.eval_shape(apply, params, form).shape[1]
    forward = backend.count_flops(apply, params, form) or 0.0
    size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))

    def operations(n: int) -> float:
        blocks, side = -(-n // measures.TILE), min(n, measures.TILE)
        passes = side * (1 if blocks == 1 else 2)  # derivatives of either side of a tile
        a_tile = 2 * passes * outputs * forward + 2 * side**2 * outputs * size
        return _START + blocks * (blocks + 1) / 2 * a_tile

    for factor in (2, 4, None):
        chosen, count = log_spaced(marks, factor), _MOST
        while count >= _FEWEST:
            if len(chosen) * operations(count) <= SHARE * 3 * forward * seen:
                return count, chosen
            count //= 2
    return _FEWEST, chosen


class Course:
    """What is measured of all replicas of a run, a row at each of its marks.

    Attributes:
        marks: at which measures are taken.
        values: numpy arrays to be saved with the run, written in place.
        seconds: of each measuring of this process, of all replicas.
    """

    def __init__(
        self,
        names: Sequence[str],
        apply: Callable,
        starts: PyTree,
        inputs: Shaped[np.ndarray, "replicas n ..."],
        targets: Shaped[np.ndarray, "replicas n ..."],
        marks: Sequence[int],
        network: Callable[[PyTree], PyTree] = _itself,
    ) -> None:
        """Prepares the course of a run.

        Args:
            names: of `NAMES`.
            apply: `(params, x [n, ...]) -> [n, c]`, each example by itself.
            starts: parameters at the start, numpy arrays [replicas, ...].
            inputs: of the sub-sample.
            targets: of the sub-sample.
            marks: increasing, the first that of the start.
            network: as `Measuring` has it; the parameters at the start are the network's already.

        Raises:
            InputError: a name is not one of these.
        """
        for name in names:
            require("measures", name, one_of(*NAMES))
        self.marks, self._network = list(marks), network
        self._names = tuple(name for name in names if name != VELOCITY)
        self._velocity, self._apply = VELOCITY in names, apply
        self._with_kernels = self._velocity or any(name in OF_KERNELS for name in names)
        self._starts, self._inputs, self._targets = starts, inputs, targets
        count, size = len(targets), inputs.shape[1]
        self.columns = self._find_columns()
        self.values = {"measures": np.full((len(marks), len(self.columns), count), np.nan)}
        if self._with_kernels:  # at the start, and the last; no checkpoint takes an empty array
            self.values["kernels"] = np.zeros((2, count, size, size), np.float32)
        self.seconds: list[float] = []

    def _of(self, replica: int, params: PyTree) -> tuple:
        def own(leaf: np.ndarray) -> np.ndarray:
            return np.asarray(leaf[replica])  # also where it is one number

        start, now = (jax.tree.map(own, p) for p in (self._starts, params))
        return start, now, self._inputs[replica], self._targets[replica]

    def _find_columns(self) -> list[str]:
        def named(*given: Any) -> dict[str, Any]:
            return {name: MEASURES[name](self._apply, *given) for name in self._names}

        found = jax.eval_shape(named, *self._of(0, self._starts))
        columns = [VELOCITY] if self._velocity else []
        for name, value in found.items():
            layers = [f"{name}/{layer}" for layer in value] if isinstance(value, dict) else [name]
            columns += layers
        return columns

    def take(self, mark: int, params: PyTree, replicas: Iterable[int] | None = None) -> None:
        """Measures replicas, if the mark is one of those, and keeps what came out.

        Args:
            mark: where the run is.
            params: of all replicas there, numpy arrays [replicas, ...].
            replicas: those that are still trained; None means all.
        """
        if mark not in self.marks:
            return
        at, begun = self.marks.index(mark), time.monotonic()
        params = self._network(params)
        for replica in range(len(self._targets)) if replicas is None else replicas:
            row = self._measure(at, replica, params)
            self.values["measures"][at, :, replica] = [row[column] for column in self.columns]
        self.seconds.append(time.monotonic() - begun)

    def _measure(self, at: int, replica: int, params: PyTree) -> dict[str, float]:
        given, known, row = self._of(replica, params), None, {}
        if self._with_kernels:
            kept = self.values["kernels"][:, replica]
            now = np.asarray(tangent_kernel(self._apply, given[1], given[2]))
            if at == 0:
                kept[:] = now
            known = (kept[0].copy(), now)
            if self._velocity:
                elapsed = self.marks[at] - self.marks[max(at - 1, 0)]
                distance = float(1 - measures.cosine(kept[1], now))
                row[VELOCITY] = distance / elapsed if elapsed else math.nan
            kept[1] = now
        return row | measures.measure(self._names, self._apply, *given, known)

    def table(self, steps: Sequence[int]) -> dict[str, Float[np.ndarray, "steps replicas"]]:
        """Returns what was measured by column, NaN at steps that are none of the marks."""
        found = np.full((len(steps), *self.values["measures"].shape[1:]), np.nan)
        for place, step in enumerate(steps):
            if step in self.marks:
                found[place] = self.values["measures"][self.marks.index(step)]
        return dict(zip(self.columns, np.moveaxis(found, 1, 0), strict=True))

    def row(self, mark: int) -> dict[str, np.ndarray]:
        """Returns what was measured at a mark, [replicas] by column; nothing elsewhere."""
        if mark not in self.marks:
            return {}
        return dict(zip(self.columns, self.values["measures"][self.marks.index(mark)], strict=True))

    def row_of(self, replica: int, mark: int) -> dict[str, float]:
        """Returns what was measured of one replica at a mark, by column; nothing elsewhere."""
        return {name: values[replica].item() for name, values in self.row(mark).items()}

    def rows_of(self, replica: int, unit: str = "step") -> list[dict[str, float]]:
        """Returns what was measured of one replica: a row a mark, which is its step, or a unit."""
        return [{unit: mark} | self.row_of(replica, mark) for mark in self.marks]

    def cost(self, training: Sequence[float], segments: int) -> Cost:
        """Returns what measuring took, beside training.

        Args:
            training: seconds of each segment of training of this process; the first compiles.
            segments: how many there are in all.
        """
        share = None
        if len(training) > 1 and len(self.seconds) > 1:
            measured = float(np.median(self.seconds[1:])) * len(self.marks)
            share = measured / (float(np.median(training[1:])) * segments)
        return Cost(self._inputs.shape[1], share)


def course_of_weights(measuring: Measuring, starts: PyTree, marks: Sequence[int]) -> Course | None:
    """Returns the course of a run of which `OF_WEIGHTS` alone are measured, as `course_of` does."""
    if not measuring.names or backend.dry_run() is not None:
        return None
    starts = measuring.network(starts)
    nothing = np.zeros((len(jax.tree.leaves(starts)[0]), 0), np.float32)
    given = (measuring.names, _no_outputs, starts, nothing, nothing, log_spaced(marks))
    return Course(*given, measuring.network)


def _no_outputs(params: PyTree, inputs: Array) -> Array:
    """Stands for the network where weights alone are measured."""
    del params
    return inputs


def course_of(
    measuring: Measuring,
    apply: Callable,
    starts: PyTree,
    fetch: Callable[[int, Array], tuple[Any, Any]],
    num_examples: int,
    marks: Sequence[int],
    seen: int,
) -> Course | None:
    """Returns the course of a run that is measured; None if nothing is, and in a dry run.

    Args:
        measuring: what is asked for.
        apply: the network that is trained.
        starts: parameters at the start, numpy arrays [replicas, ...].
        fetch: `(replica, index [n]) -> (inputs, targets)` of training examples.
        num_examples: how many of those there are.
        marks: at which the run stops, increasing, the first that of the start.
        seen: examples that a replica is trained on, in all.

    Raises:
        InputError: outputs of an example depend on others in its batch.
    """
    if not measuring.names or backend.dry_run() is not None:
        return None
    if set(measuring.names) <= set(OF_WEIGHTS):
        return course_of_weights(measuring, starts, marks)
    apply, count, chosen = measuring.apply or apply, measuring.examples, log_spaced(marks)
    starts = measuring.network(starts)
    if count is None:
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), starts)
        example = np.asarray(fetch(0, jnp.arange(1))[0])
        form = jax.ShapeDtypeStruct(example.shape[1:], example.dtype)
        count, chosen = affordable(apply, one, form, marks, seen)
    index = subsample(num_examples, min(count, num_examples))
    replicas = len(jax.tree.leaves(starts)[0])
    fetched = [fetch(replica, index) for replica in range(replicas)]
    if measuring.targets is not None:
        fetched = [(inputs, measuring.targets(targets)) for inputs, targets in fetched]
    inputs, targets = (
        np.stack([np.asarray(part) for part in parts]) for parts in zip(*fetched, strict=True)
    )
    check_alone(apply, jax.tree.map(lambda leaf: leaf[0], starts), inputs[0])
    given = (measuring.names, apply, starts, inputs, targets, chosen)
    return Course(*given, measuring.network)
