"""Measures of lazy and rich along a run: their marks, examples and cost.

Measures are taken at the start, at the end and at steps spaced evenly on a logarithmic scale, as
far as the run stops there, on one fixed sub-sample of its training examples. They do not change the
training: a run ends with the same bits with and without.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax import backend, costs
from lsa_jax.checks import integer, one_of, optional, require
from lsa_jax.errors import InputError
from lsa_jax.reporting.courses import OF_WEIGHTS
from lsa_jax.training import measures
from lsa_jax.training.measures import MEASURES, OF_KERNELS, check_alone, tangent_kernel

VELOCITY, SHARPNESS = "kernel_velocity", "sharpness"
NAMES = (*MEASURES, VELOCITY, SHARPNESS)

# The share of training's operations that measuring may take where the number of examples is left
# open. On CPUs an operation of measuring takes up to twice the time: a tenth of the time in all.
SHARE = 0.05
_FEWEST, _MOST = 16, 128

# Products with the Hessian that the sharpness takes, each twice a gradient, of three passes.
_PRODUCTS = 50

# Operations that could be done while the programs of one measuring start.
_START = 5e7


def _itself(params: PyTree) -> PyTree:
    return params


class Measuring(NamedTuple):
    """Measures to take along a run in addition to its losses.

    Attributes:
        names: of `NAMES`; none measures nothing.
        examples: number of training examples to measure on, at steps a factor of two apart; None
            takes a power of two, 16 to 128, for which measuring takes about a tenth of training's
            time. Where 16 take more, steps are a factor of four apart, or only start and end.
        apply: the network, `(params, x [n, ...]) -> [n, c]`, each example by itself; None takes
            the one that is trained.
        targets: selects from the fetched targets the ones to align kernels with; None takes all.
        network: `(trained parameters) -> the network's parameters`.
        loss: `(outputs, targets) -> [n]`, that "sharpness" is of, in the trained parameters and
            with the function that is trained; `training.train` gives its own.
        state: entries of the parameters that are not trained, such as running statistics, which
            `training.train` finds. Start and now are compared with those of now.
    """

    names: tuple[str, ...] = ()
    examples: int | None = None
    apply: Callable | None = None
    targets: Callable[[Array], Array] | None = None
    network: Callable[[PyTree], PyTree] = _itself
    loss: Callable[[Array, Array], Array] | None = None
    state: tuple[str, ...] = ()


NOTHING = Measuring()


class Cost(NamedTuple):
    """The cost of measuring."""

    examples: int  # training examples measured on; 0 for measures of the weights alone
    share: float | None  # of training's time, without compilation; None after too little of either


def log_spaced(marks: Sequence[int], factor: int | None = 2) -> list[int]:
    """Returns the increasing marks at which measures are taken.

    The first and the last, and the first at or above each power of a factor; None for those alone.
    """
    marks, chosen, power = list(marks), {marks[0], marks[-1]}, 1
    while factor is not None and power <= marks[-1]:
        chosen.add(next(mark for mark in marks if mark >= power))
        power *= factor
    return sorted(chosen)


def subsample(num_examples: int, count: int) -> Array:
    """Returns the examples to measure on: the same for every run.

    In random order, since data sets may be sorted by class.
    """
    return jax.random.permutation(jax.random.key(0), num_examples)[:count]


def affordable(
    apply: Callable,
    params: PyTree,
    example: Any,
    marks: Sequence[int],
    seen: int,
    *,
    sharpness: bool = False,
) -> tuple[int, list[int]]:
    """Returns numbers of examples and marks for which measuring takes at most `SHARE` of training.

    The fewest of both where no choice does. Training takes about three passes through the network
    an example; the kernel of a tile two for each of its examples and outputs c, and n^2 c P
    operations.

    Args:
        apply: `(params, x [n, ...]) -> [n, c]`.
        params: of one replica, arrays or their shapes.
        example: one input, or its shape.
        marks: at which the run stops, increasing.
        seen: number of examples that a replica is trained on, in all.
        sharpness: whether it is measured too.
    """
    form = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
    outputs = jax.eval_shape(apply, params, form).shape[1]
    forward = costs.count_flops(apply, params, form) or 0.0
    size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))

    def operations(n: int) -> float:
        blocks, side = -(-n // measures.TILE), min(n, measures.TILE)
        passes = side * (1 if blocks == 1 else 2)  # derivatives of either side of a tile
        a_tile = 2 * passes * outputs * forward + 2 * side**2 * outputs * size
        products = _PRODUCTS * 6 * forward * n if sharpness else 0.0
        return _START + blocks * (blocks + 1) / 2 * a_tile + products

    for factor in (2, 4, None):
        chosen, count = log_spaced(marks, factor), _MOST
        while count >= _FEWEST:
            if len(chosen) * operations(count) <= SHARE * 3 * forward * seen:
                return count, chosen
            count //= 2
    return _FEWEST, chosen


class Course:
    """Measures of all replicas of a run, a row at each of its marks.

    Attributes:
        marks: at which measures are taken.
        columns: names of the measured values; a layer's are "weight_movement/Conv_0".
        values: numpy arrays to be saved with the run, written in place.
        seconds: of each measuring of this process, of all replicas.
    """

    def __init__(
        self,
        measuring: Measuring,
        apply: Callable,
        starts: PyTree,
        inputs: Shaped[np.ndarray, "replicas n ..."],
        targets: Shaped[np.ndarray, "replicas n ..."],
        marks: Sequence[int],
        sharpness: Callable[[int, PyTree], float] | None = None,
    ) -> None:
        """Prepares the course of a run.

        Args:
            measuring: its names, network and state.
            apply: `(params, x [n, ...]) -> [n, c]`, each example by itself.
            starts: the network's parameters at the start, numpy arrays [replicas, ...].
            inputs: of the sub-sample.
            targets: of the sub-sample.
            marks: increasing, the first that of the start.
            sharpness: `(replica, its trained parameters) -> sharpness`, where it is measured.

        Raises:
            InputError: a name is not one of `NAMES`.
        """
        names = measuring.names
        for name in names:
            require("measures", name, one_of(*NAMES))
        self.marks, self._network, self._state = list(marks), measuring.network, measuring.state
        self._names = tuple(name for name in names if name in MEASURES)
        self._velocity, self._apply = VELOCITY in names, apply
        self._sharpness = sharpness if SHARPNESS in names else None
        self._with_kernels = self._velocity or any(name in OF_KERNELS for name in names)
        self._starts, self._inputs, self._targets = starts, inputs, targets
        count, size = len(targets), inputs.shape[1]
        self.columns = self._find_columns()
        self.values = {"measures": np.full((len(marks), len(self.columns), count), np.nan)}
        if self._with_kernels:  # at the start, and the last
            self.values["kernels"] = np.zeros((2, count, size, size), np.float32)
        self.seconds: list[float] = []

    def _of(self, replica: int, params: PyTree) -> tuple:
        """Returns one replica's parameters at the start and now, inputs and targets."""

        def own(leaf: np.ndarray) -> np.ndarray:
            return np.asarray(leaf[replica])  # also where it is one number

        start, now = (jax.tree.map(own, p) for p in (self._starts, params))
        if self._state:
            start = start | {name: now[name] for name in self._state}
        return start, now, self._inputs[replica], self._targets[replica]

    def _find_columns(self) -> list[str]:
        def named(*given: Any) -> dict[str, Any]:
            return {name: MEASURES[name](self._apply, *given) for name in self._names}

        columns = [VELOCITY] if self._velocity else []
        columns += [SHARPNESS] if self._sharpness else []
        for name, value in jax.eval_shape(named, *self._of(0, self._starts)).items():
            if isinstance(value, dict):
                trained = [layer for layer in value if layer.split("/")[0] not in self._state]
                columns += [f"{name}/{layer}" for layer in trained]
            else:
                columns.append(name)
        return columns

    def take(self, mark: int, params: PyTree, replicas: Iterable[int] | None = None) -> None:
        """Measures replicas, if the mark is one of the course's.

        `params` are those of all replicas, numpy arrays [replicas, ...]; `replicas` the ones still
        trained, None all.
        """
        if mark not in self.marks:
            return
        at, begun = self.marks.index(mark), time.monotonic()
        own = self._network(params)
        for replica in range(len(self._targets)) if replicas is None else replicas:
            row = self._measure(at, replica, own)
            if self._sharpness is not None:
                one = jax.tree.map(lambda leaf, r=replica: np.asarray(leaf[r]), params)
                row[SHARPNESS] = self._sharpness(replica, one)
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
            if self._state:
                known = (np.asarray(tangent_kernel(self._apply, given[0], given[2])), now)
            if self._velocity:
                elapsed = self.marks[at] - self.marks[max(at - 1, 0)]
                distance = float(1 - measures.cosine(kept[1], now))
                row[VELOCITY] = distance / elapsed if elapsed else math.nan
            kept[1] = now
        return row | measures.measure(self._names, self._apply, *given, known)

    def row(self, mark: int) -> dict[str, np.ndarray]:
        """Returns the values at a mark, [replicas] by column; nothing elsewhere."""
        if mark not in self.marks:
            return {}
        return dict(zip(self.columns, self.values["measures"][self.marks.index(mark)], strict=True))

    def table(self, steps: Sequence[int]) -> dict[str, Float[np.ndarray, "steps replicas"]]:
        """Returns the values by column, NaN at steps that are none of the marks."""
        nothing = np.full(len(self._targets), np.nan)
        rows = [self.row(step) for step in steps]
        return {name: np.stack([row.get(name, nothing) for row in rows]) for name in self.columns}

    def row_of(self, replica: int, mark: int) -> dict[str, float]:
        """Returns one replica's values at a mark, by column; nothing elsewhere."""
        return {name: values[replica].item() for name, values in self.row(mark).items()}

    def rows_of(self, replica: int, unit: str = "step") -> list[dict[str, float]]:
        """Returns one replica's values by column: a row a mark, with its number of steps."""
        return [{unit: mark} | self.row_of(replica, mark) for mark in self.marks]

    def cost(self, training: Sequence[float], segments: int) -> Cost:
        """Returns the cost of measuring, compared with training in so many segments.

        `training` has the seconds of each segment of this process; the first compiles.
        """
        share = None
        if len(training) > 1 and len(self.seconds) > 1:
            measured = float(np.median(self.seconds[1:])) * len(self.marks)
            share = measured / (float(np.median(training[1:])) * segments)
        return Cost(self._inputs.shape[1], share)


def course_of_weights(measuring: Measuring, starts: PyTree, marks: Sequence[int]) -> Course | None:
    """Returns the course of a run with measures of `OF_WEIGHTS` alone, as `course_of` does."""
    if not measuring.names or backend.dry_run() is not None:
        return None
    starts = measuring.network(starts)
    nothing = np.zeros((len(jax.tree.leaves(starts)[0]), 0), np.float32)
    return Course(measuring, _no_outputs, starts, nothing, nothing, log_spaced(marks))


def _no_outputs(params: PyTree, inputs: Array) -> Array:
    """Takes the place of the network where only weights are measured."""
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
    """Returns the course of a run; None in a dry run, and where nothing is measured.

    Args:
        measuring: the measures.
        apply: the network that is trained.
        starts: parameters at the start, numpy arrays [replicas, ...].
        fetch: `(replica, index [n]) -> (inputs, targets)` of training examples.
        num_examples: number of training examples.
        marks: at which the run stops, increasing, the first that of the start.
        seen: number of examples that a replica is trained on, in all.

    Raises:
        InputError: outputs of an example depend on others in its batch, or the sharpness is to be
            measured and there is no loss.
    """
    if not measuring.names or backend.dry_run() is not None:
        return None
    if set(measuring.names) <= set(OF_WEIGHTS):
        return course_of_weights(measuring, starts, marks)
    if SHARPNESS in measuring.names and measuring.loss is None:
        raise InputError(
            "measures are 'sharpness', and the loss is not known; accepted: Measuring(loss=...), "
            "or the measures of training.train"
        )
    require("measuring.examples", measuring.examples, optional(integer(1)))
    trained, count, chosen = apply, measuring.examples, log_spaced(marks)
    apply, starts = measuring.apply or apply, measuring.network(starts)
    if count is None:
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), starts)
        example = np.asarray(fetch(0, jnp.arange(1))[0])[0]
        with_sharpness = SHARPNESS in measuring.names
        count, chosen = affordable(apply, one, example, marks, seen, sharpness=with_sharpness)
    index = subsample(num_examples, min(count, num_examples))
    fetched = [fetch(replica, index) for replica in range(len(jax.tree.leaves(starts)[0]))]

    def sharpness(replica: int, params: PyTree) -> float:
        return measures.sharpness(trained, params, *fetched[replica], measuring.loss)

    aligned = measuring.targets or (lambda targets: targets)
    inputs, targets = (
        np.stack([np.asarray(part) for part in parts])
        for parts in zip(*((x, aligned(y)) for x, y in fetched), strict=True)
    )
    check_alone(apply, jax.tree.map(lambda leaf: leaf[0], starts), inputs[0])
    return Course(measuring, apply, starts, inputs, targets, chosen, sharpness)
