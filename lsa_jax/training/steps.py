"""Training counted in steps: batches in a given order, losses measured at given steps.

For networks that begin anywhere, such as grown ones; `training.train` begins at initialisation and
counts epochs. Each segment between two checkpoints is one compiled scan.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from lsa_jax import backend
from lsa_jax.arrays import digest, real_numbers
from lsa_jax.checks import integer, optional, require
from lsa_jax.errors import InputError
from lsa_jax.parallel import Layout, as_one_part, kept_programs, layout_of
from lsa_jax.training.checkpoints import program_text
from lsa_jax.training.course import NOTHING, Cost, Course, Measuring, course_of_weights
from lsa_jax.training.optimizers import check_optimizer, descend
from lsa_jax.training.segments import Checkpoints, kept_if, placed, run_segments

PyTree = Any


class NetworkState(NamedTuple):
    """One network between two steps, or many with a leading axis of replicas."""

    params: PyTree
    opt_state: PyTree


class Problem(NamedTuple):
    """A loss to minimise, its optimiser, and training and validation batches.

    Problems whose functions are the same objects share their compiled programs.

    Attributes:
        loss: `(params, batch) -> (sum of losses, number of them)`; axes of a batch begin with
            examples.
        optimizer: an optax transformation.
        batches: `(first step, steps) -> batches [steps, ...]`, the same for all networks.
        validation: batches [parts, ...] whose mean loss is measured.
        checksum: distinguishes data that differ beyond `validation` and the first batch.
    """

    loss: Callable[[PyTree, PyTree], tuple[Array, Array]]
    optimizer: optax.GradientTransformation
    batches: Callable[[int, int], PyTree]
    validation: PyTree
    checksum: int = 0


class Guarded(NamedTuple):
    """A network that stays as it was before the first loss that was not finite."""

    state: NetworkState
    finite: Bool[Array, ""]  # whether all losses were finite

    @property
    def params(self) -> PyTree:
        """The network's parameters."""
        return self.state.params


class Programs(NamedTuple):
    """A problem compiled for a layout; the same for all networks of one shape.

    Attributes:
        advance: `(networks, batches [steps, ...], measured [steps], validation) -> (networks,
            losses [steps])`; the loss before each step that is measured, 0 elsewhere.
        measure: `(networks, validation) -> losses`; NaN where one was not finite before.
    """

    advance: Callable
    measure: Callable


def make_measure(loss: Callable, layout: Layout) -> Callable[[PyTree, PyTree], Array]:
    """Returns `(params, validation) -> mean loss`."""

    def measure(params: PyTree, validation: PyTree) -> Float[Array, ""]:
        def add(sums: tuple[Array, Array], batch: PyTree) -> tuple[tuple[Array, Array], None]:
            found = layout.total(loss(params, layout.part(batch)))
            return jax.tree.map(lambda a, b: a + jnp.float32(b), sums, found), None

        (total, count), _ = lax.scan(add, (jnp.float32(0), jnp.float32(0)), validation)
        return total / count

    return measure


@kept_programs
def make_programs(
    loss: Callable, optimizer: optax.GradientTransformation, layout: Layout
) -> Programs:
    """Returns the programs of a problem's functions, the same ones for the same functions."""
    measure = make_measure(loss, layout)

    def measure_guarded(now: Guarded, validation: PyTree) -> Array:
        return jnp.where(now.finite, measure(now.state.params, validation), jnp.nan)

    def take(now: Guarded, batch: PyTree) -> Guarded:
        state, batch = now.state, layout.part(batch)

        def total(params: PyTree) -> tuple[Array, Array]:
            value, count = loss(params, batch)
            return value, jnp.float32(count)

        def both(params: PyTree) -> tuple[Array, PyTree]:
            summed = layout.total(jax.value_and_grad(total, has_aux=True)(params))
            (value, count), gradient = summed
            return value / count, jax.tree.map(lambda g: g / count, gradient)

        value, *after = descend(optimizer, both, *state)
        finite = now.finite & jnp.isfinite(value)
        return Guarded(kept_if(finite, NetworkState(*after), state), finite)

    def advance(
        now: Guarded, batches: PyTree, measured: Bool[Array, " steps"], validation: PyTree
    ) -> tuple[Guarded, Float[Array, " steps"]]:
        def step(now: Guarded, item: tuple[PyTree, Array]) -> tuple[Guarded, Array]:
            value = (lambda: measure_guarded(now, validation)), (lambda: jnp.float32(0))
            return take(now, item[0]), lax.cond(item[1], *value)

        return lax.scan(step, now, (batches, measured))

    return Programs(layout.map(advance, 1, donate=True), layout.map(measure_guarded, 1))


class Trained(NamedTuple):
    """Trained networks and their measures.

    Attributes:
        states: [replicas, ...] as numpy arrays, those before the first loss that was not finite.
        losses: measured ones, NaN from such a loss on.
        course: of `measuring`, its marks counted from the start; None without measures.
        cost: of measuring.
    """

    states: NetworkState
    losses: Float[np.ndarray, "evaluations replicas"]
    course: Course | None
    cost: Cost | None


def check_problem(problem: Problem, states: NetworkState, count: int) -> NetworkState:
    """Returns networks [replicas, ...] as arrays that can be trained on a problem.

    Raises:
        InputError: parameters are no floats, or the problem's loss or optimiser does not fit them.
    """

    def floats(path: Any, leaf: Any) -> Array | np.ndarray:
        name = f"states.params{jax.tree_util.keystr(path)}"
        leaf = real_numbers(name, leaf)
        if leaf.shape[:1] != (count,):
            raise InputError(f"{name} has shape {leaf.shape}; accepted: [{count}, ...], by replica")
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise InputError(f"{name} holds {leaf.dtype}; accepted: floats, to be trained")
        return leaf

    states = states._replace(params=jax.tree_util.tree_map_with_path(floats, states.params))

    loss, forms = as_one_part(problem.loss, *_one((states.params, problem.validation)))
    found = jax.eval_shape(loss, *forms)
    shapes = [getattr(part, "shape", None) for part in jax.tree.leaves(found)]
    if shapes != [(1,), (1,)]:
        raise InputError(
            f"problem.loss returns {jax.tree.map(lambda a: a.shape[1:], found)}; accepted: "
            "(params, batch) -> (sum of losses, number of them), two numbers"
        )
    check_optimizer(problem.optimizer, _one(states.params))
    return states


def _one(tree: PyTree) -> PyTree:
    """Returns the shapes and types of one entry of [replicas, ...]."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), tree)


def _identity(
    problem: Problem, states: NetworkState, start: int, stop: int, measured: np.ndarray
) -> dict[str, int]:
    """Returns hashes of all that decides the bits of `train_steps`; only the first batch counts."""
    one, batch = _one((states, problem.validation))

    def update(gradient: PyTree, state: PyTree, params: PyTree) -> PyTree:
        return descend(problem.optimizer, lambda p: (jnp.float32(0), gradient), params, state)

    examples = problem.validation, problem.batches(start, 1) if start < stop else ()
    return {
        "data": digest(f"{problem.checksum} {digest(examples)}"),
        "networks at the start": digest(states),
        "steps": digest(np.array([start, stop, *measured])),
        "loss": digest(program_text(problem.loss, one.params, batch)[0]),
        "optimiser": digest(program_text(update, one.params, one.opt_state, one.params)[0]),
    }


def _checked_spans(start: Any, stop: Any, measured: Any, segment: Any) -> list[tuple[int, int]]:
    """Returns the segments, or raises InputError where numbers of steps are out of order."""
    require("start", start, integer(0))
    require("stop", stop, integer(int(start)))
    require("segment", segment, integer(1))
    steps = np.asarray(measured).tolist()
    if len({*steps}) < len(steps) or not {*steps} <= {*range(start, stop + 1)}:
        raise InputError(f"measured is {steps}; accepted: different steps from {start} to {stop}")
    return _spans(start, stop, segment)


def _check_batches(batches: PyTree, first: int, count: int) -> None:
    """Raises InputError unless there is a batch for each step."""
    if any(np.shape(leaf)[:1] != (count,) for leaf in jax.tree.leaves(batches)):
        raise InputError(
            f"problem.batches({first}, {count}) returns arrays of shapes "
            f"{jax.tree.map(np.shape, batches)}; accepted: [{count}, ...], by step"
        )


def _spans(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(first + size, stop)) for first in range(start, stop, size)]


def train_steps(
    problem: Problem,
    states: NetworkState,
    layout: Layout,
    *,
    start: int,
    stop: int,
    measured: Int[np.ndarray, " evaluations"],
    segment: int,
    directory: Path | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
    measuring: Measuring = NOTHING,
) -> Trained:
    """Takes the steps start, start + 1, ... stop - 1 on every replica.

    Args:
        problem: the loss, the optimiser and the data.
        states: [replicas, ...].
        layout: placement of the replicas, or of one network's batches, on the devices.
        start: number of the first step.
        stop: number after the last.
        measured: numbers of the steps before which to measure the loss; `stop` for the end.
        segment: steps between checkpoints.
        directory: of the checkpoints; None saves nothing.
        progress: called with the fraction done after each segment.
        measuring: of `OF_WEIGHTS`, measured between segments since the start.

    Raises:
        InputError: the checkpoint is of another run, or the loss or the optimiser does not fit.
    """
    states = check_problem(problem, states, layout.num_replicas)
    spans = _checked_spans(start, stop, measured, segment)
    marks = [last - start for _, last in spans]
    course = course_of_weights(measuring, states.params, [0, *marks])
    programs = make_programs(problem.loss, problem.optimizer, layout)
    validation = layout.share(problem.validation)
    # A dry run, which skips equal segments, has zeros.
    unknown = np.nan if backend.dry_run() is None else 0.0
    losses = np.full((len(measured), layout.num_replicas), unknown, np.float32)
    rows = {int(step): row for row, step in enumerate(measured)}

    def measure_end(now: Guarded) -> None:
        if stop in rows:
            losses[rows[stop]] = layout.gather(programs.measure(now, validation))

    def advance(now: Guarded, index: int) -> Guarded:
        first, last = spans[index]
        steps = np.arange(first, last)
        flags = np.isin(steps, list(rows))
        batches = backend.shapes_only(lambda: problem.batches(first, last - first))
        _check_batches(batches, first, last - first)
        shared = layout.share((batches, jnp.asarray(flags)))
        now, found = programs.advance(now, *shared, validation)
        found = layout.gather(found)
        for step in steps[flags]:
            losses[rows[int(step)]] = found[:, step - first]
        if last == stop:
            measure_end(now)
        return now

    now, _, cost = run_segments(
        placed(layout, Guarded(states, np.ones(layout.num_replicas, bool))),
        losses,
        [last for _, last in spans],
        advance,
        kept=Checkpoints(directory),
        layout=layout,
        going=lambda now, _: bool(layout.gather(now.finite).any()),
        identity=lambda: _identity(problem, states, start, stop, measured),
        lengths=[last - first for first, last in spans],
        progress=lambda mark: progress((mark - start) / (stop - start)),
        course=course,
        measured=marks,
    )
    if start == stop:
        measure_end(now)
    return Trained(layout.gather(now.state), losses, course, cost)


def layouts_of(
    count: int, at_once: int | None = None, batch_size: int | None = None
) -> list[Layout]:
    """Returns the layouts of so many networks, part by part.

    Args:
        count: networks.
        at_once: networks side by side; the others wait for them. None means all.
        batch_size: if given, networks are trained one after the other, and each batch of this size
            is split over the devices.
    """
    require("count", count, integer(1))
    require("at_once", at_once, optional(integer(1)))
    spans = _spans(0, count, 1 if batch_size else min(at_once or count, count))
    return [layout_of(stop - start, batch_size) for start, stop in spans]


def train_parts(
    problem: Problem,
    begin: Callable[[int, int], NetworkState],
    layouts: Sequence[Layout],
    *,
    directory: Path | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
    **steps: Any,
) -> Iterator[tuple[int, Trained]]:
    """Trains many networks part by part, each part resumable by itself.

    Args:
        problem: the loss, the optimiser and the data.
        begin: `(start, stop) -> states` of those networks, called when their turn comes, so that
            memory holds a single part.
        layouts: of the parts, as `layouts_of` returns them.
        directory: of the parts' checkpoints; None saves nothing.
        progress: called with the fraction done.
        steps: other arguments of `train_steps`.

    Yields:
        The number of a part's first network, and the part.
    """
    counts = [layout.num_replicas for layout in layouts]
    *starts, total = np.cumsum([0, *counts]).tolist()
    for place in backend.each(range(len(layouts)), counts):
        start, count = starts[place], counts[place]
        trained = train_steps(
            problem,
            begin(start, start + count),
            layouts[place],
            directory=directory and Path(directory) / f"part_{start:03d}",
            progress=lambda fraction: progress((start + count * fraction) / total),  # noqa: B023
            **steps,
        )
        alike = [first for first, own in zip(starts, counts, strict=True) if own == count]
        for first in [start] if backend.dry_run() is None else alike:
            yield first, trained
        del trained  # the next part needs the memory
