"""Training counted in steps: batches in a given order, losses measured at given steps.

For networks that begin anywhere, grown ones too, where `training.train` begins at initialisation
and counts epochs. A run goes from checkpoint to checkpoint in segments, each one compiled scan.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from lsa_jax import backend
from lsa_jax.parallel import BatchLayout, Layout, ReplicaLayout, kept_programs
from lsa_jax.training import contracts, identities
from lsa_jax.training.measuring import NOTHING, Cost, Course, Measuring, course_of_weights
from lsa_jax.training.optimizers import update
from lsa_jax.training.segments import Checkpoints, kept_if, placed, run_segments

PyTree = Any


class NetworkState(NamedTuple):
    """One network between two steps, or many with a leading axis of replicas."""

    params: PyTree
    opt_state: PyTree


class Problem(NamedTuple):
    """What is minimised, by what, and where it is measured.

    Problems whose functions are the same objects share their compiled programs.

    Attributes:
        loss: `(params, batch) -> (sum of losses, how many)`; a batch's axes begin with examples.
        optimizer: an optax transformation.
        batches: `(first step, steps) -> batches [steps, ...]`, the same whoever is trained on them.
        validation: batches [parts, ...] whose mean loss is measured.
        checksum: tells data apart that differ beyond `validation` and the first batch.
    """

    loss: Callable[[PyTree, PyTree], tuple[Array, Array]]
    optimizer: optax.GradientTransformation
    batches: Callable[[int, int], PyTree]
    validation: PyTree
    checksum: int = 0


class Guarded(NamedTuple):
    """A network that stays as it was before the first loss that was not finite.

    Attributes:
        state: the network.
        finite: whether all losses were.
    """

    state: NetworkState
    finite: Bool[Array, ""]


class Programs(NamedTuple):
    """A problem compiled for a layout; the same for all networks of one shape.

    Attributes:
        advance: `(networks, batches [steps, ...], measured [steps], validation) -> (networks,
            losses [steps])`; the loss before each step that is measured, NaN elsewhere.
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

        value, gradient = both(state.params)
        given = (gradient, state.opt_state, state.params, value, both)
        updates, opt_state = update(optimizer, *given)
        after = NetworkState(optax.apply_updates(state.params, updates), opt_state)
        finite = now.finite & jnp.isfinite(value)
        return Guarded(kept_if(finite, after, state), finite)

    def advance(
        now: Guarded, batches: PyTree, measured: Bool[Array, " steps"], validation: PyTree
    ) -> tuple[Guarded, Float[Array, " steps"]]:
        def step(now: Guarded, item: tuple[PyTree, Array]) -> tuple[Guarded, Array]:
            value = (lambda: measure_guarded(now, validation)), (lambda: jnp.float32(jnp.nan))
            return take(now, item[0]), lax.cond(item[1], *value)

        return lax.scan(step, now, (batches, measured))

    return Programs(layout.map(advance, 1, donate=True), layout.map(measure_guarded, 1))


class Trained(NamedTuple):
    """What training led to.

    Attributes:
        states: [replicas, ...] as numpy arrays, those before the first loss that was not finite.
        losses: that were measured, NaN from such a loss on.
        course: of `measuring`, its marks counted from the start; None if that is nothing.
        cost: what it took.
    """

    states: NetworkState
    losses: Float[np.ndarray, "evaluations replicas"]
    course: Course | None
    cost: Cost | None


def _segments(start: int, stop: int, size: int) -> list[tuple[int, int]]:
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
        problem: what is minimised.
        states: [replicas, ...].
        layout: how the replicas, or one network's batches, lie on the devices.
        start: number of the first step.
        stop: number after the last.
        measured: at which numbers to measure the loss, before that step, `stop` for the end.
        segment: steps between checkpoints.
        directory: of the checkpoints; None keeps nothing.
        progress: called with the fraction done after each segment.
        measuring: of `OF_WEIGHTS`, what is measured since the start, between segments.

    Raises:
        InputError: the checkpoint is of another run, or the loss or the optimiser does not fit.
    """
    states = contracts.check_problem(problem, states, layout.num_replicas)
    spans = _segments(start, stop, segment)
    marks = [0, *(last - start for _, last in spans)]
    course = course_of_weights(measuring, states.params, marks)
    trainer = _Trainer(problem, layout, measured, spans, course)
    now, _ = run_segments(
        placed(layout, Guarded(states, np.ones(layout.num_replicas, bool))),
        (trainer.losses, course.values) if course else trainer.losses,
        [last for _, last in spans],
        trainer.advance,
        kept=Checkpoints(directory),
        layout=layout,
        going=lambda now, _: bool(layout.gather(now.finite).any()),
        identity=lambda: identities.of_steps(problem, states, start, stop, measured),
        lengths=[last - first for first, last in spans],
        progress=lambda mark: progress((mark - start) / (stop - start)),
    )
    if start == stop:
        trainer.measure(stop, now)
    cost = course and course.cost(trainer.seconds, len(spans))
    return Trained(layout.gather(now.state), trainer.losses, course, cost)


class _Trainer:
    """What is done in a segment; `losses` are those that were measured."""

    def __init__(
        self,
        problem: Problem,
        layout: Layout,
        measured: Int[np.ndarray, " evaluations"],
        spans: list[tuple[int, int]],
        course: Course | None,
    ) -> None:
        self._problem, self._layout, self._spans, self._course = problem, layout, spans, course
        self.seconds: list[float] = []  # of each segment of this process
        # A dry run, which skips equal segments, has zeros.
        unknown = np.nan if backend.dry_run() is None else 0.0
        self.losses = np.full((len(measured), layout.num_replicas), unknown, np.float32)
        self._rows = {int(step): row for row, step in enumerate(measured)}
        self._programs = make_programs(problem.loss, problem.optimizer, layout)
        self._validation = layout.share(problem.validation)

    def advance(self, now: Guarded, index: int) -> Guarded:
        first, last = self._spans[index]
        if self._course and not index:
            self._course.take(0, self._layout.gather(now.state.params))
        begun = time.monotonic()
        steps = np.arange(first, last)
        flags = np.isin(steps, list(self._rows))
        batches = backend.shapes_only(lambda: self._problem.batches(first, last - first))
        shared = self._layout.share((batches, jnp.asarray(flags)))
        now, found = self._programs.advance(now, *shared, self._validation)
        found = self._layout.gather(found)  # waits for the devices
        self.seconds.append(time.monotonic() - begun)
        if self._course:
            self._course.take(last - self._spans[0][0], self._layout.gather(now.state.params))
        for step in steps[flags]:
            self.losses[self._rows[int(step)]] = found[:, step - first]
        if last == self._spans[-1][1]:
            self.measure(last, now)
        return now

    def measure(self, step: int, now: Guarded) -> None:
        """Measures the loss after all steps, if that is asked for."""
        if step in self._rows:
            found = self._programs.measure(now, self._validation)
            self.losses[self._rows[step]] = self._layout.gather(found)


@kept_programs  # which are shared by layout
def _layout(batch_size: int | None, count: int) -> Layout:
    return BatchLayout(batch_size) if batch_size else ReplicaLayout(count)


class Placement(NamedTuple):
    """How many networks are trained at once, and how they lie on the devices.

    Attributes:
        at_once: networks side by side; the others wait for them. None means all.
        batch_size: if given, networks are trained one after the other, each with its batches of
            this size dealt out over the devices.
    """

    at_once: int | None = None
    batch_size: int | None = None

    def parts(self, count: int) -> list[tuple[int, int, Layout]]:
        """Returns first network, number after the last, and layout, part by part."""
        parts = _segments(0, count, 1 if self.batch_size else min(self.at_once or count, count))
        return [(*part, _layout(self.batch_size, part[1] - part[0])) for part in parts]


EVERYWHERE = Placement()


class Part(NamedTuple):
    """Networks that were trained at once.

    Attributes:
        start: number of the first.
        stop: number after the last.
        trained: what training led to, [networks, ...].
    """

    start: int
    stop: int
    trained: Trained


def train_parts(
    problem: Problem,
    begin: Callable[[int, int], NetworkState],
    count: int,
    placement: Placement,
    *,
    directory: Path | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
    **steps: Any,
) -> Iterator[Part]:
    """Trains many networks part by part, each part resumable by itself.

    Args:
        problem: what is minimised.
        begin: `(start, stop) -> states` of those networks, asked for when their turn comes, so that
            memory holds one part alone.
        count: networks.
        placement: how many at once.
        directory: of the parts' checkpoints; None keeps nothing.
        progress: called with the fraction done.
        steps: `start`, `stop`, `measured`, `segment` and `measuring` of `train_steps`.
    """
    parts = placement.parts(count)
    lengths = [stop - start for start, stop, _ in parts]
    for place in backend.each(range(len(parts)), lengths):
        start, stop, layout = parts[place]
        share = (stop - start) / count
        trained = train_steps(
            problem,
            begin(start, stop),
            layout,
            directory=directory and directory / f"part_{start:03d}",
            progress=lambda fraction: progress(start / count + share * fraction),  # noqa: B023
            **steps,
        )
        alike = [part for part in parts if part[1] - part[0] == stop - start]
        for first, last, _ in [parts[place]] if backend.dry_run() is None else alike:
            yield Part(first, last, trained)
        del trained  # whoever asked for them has them; the next ones need the memory


def train_one(problem: Problem, state: NetworkState, batch_size: int, **settings: Any) -> Trained:
    """Trains one network without an axis of replicas, its batches dealt out over all devices.

    Args:
        problem: what is minimised.
        state: of the one network, without an axis of replicas.
        batch_size: examples of a batch.
        settings: the other arguments of `train_steps`.

    Raises:
        InputError: the devices cannot share a batch evenly.
    """
    single = jax.tree.map(lambda a: np.asarray(a)[None], state)
    found = train_steps(problem, single, _layout(batch_size, 1), **settings)
    one = jax.tree.map(lambda a: a[0], found.states)
    return found._replace(states=one, losses=found.losses[:, 0])
