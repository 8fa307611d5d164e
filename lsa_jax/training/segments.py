"""Work that goes on for long, cut into segments, so that a killed run goes on where it was.

Everything that is trained goes through `run_segments`: between two segments Python comes up to
measure, to save and to report. What is measured lies in a table of numpy arrays that is saved with
the state. A replica's compiled steps see to it that its state stays as it was before a loss that
was not finite (`kept_if`); where all replicas have stopped, there is nothing to go on with.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lsa_jax import backend
from lsa_jax.errors import InputError
from lsa_jax.parallel import Layout, kept_programs
from lsa_jax.training import checkpoints

if TYPE_CHECKING:
    from lsa_jax.training.measuring import Cost, Course

Tree = TypeVar("Tree")


class Checkpoints(NamedTuple):
    """Where a run keeps what it needs to go on.

    Attributes:
        directory: None keeps nothing.
        every: segments between two checkpoints; the last segment is always saved.
    """

    directory: Path | None = None
    every: int = 1


NOWHERE = Checkpoints()


def kept_if(going: Bool[Array, ""], after: Tree, before: Tree) -> Tree:
    """Returns the state after a step, or the one before it where the step is not to be taken."""
    return jax.tree.map(lambda new, old: jnp.where(going, new, old), after, before)


def placed(layout: Layout, tree: Tree) -> Tree:
    """Puts [replicas, ...] on the devices, lying as what a mapped function returns.

    A function would be compiled twice for arrays that lie otherwise in its first call.
    """
    return _placing(layout)(layout.spread(tree))


@kept_programs
def _placing(layout: Layout) -> Callable[[Tree], Tree]:
    def place(tree: Tree) -> Tree:
        return tree

    return layout.map(place, 1)


def _write_into(table: Tree, saved: Tree) -> None:
    for array, values in zip(jax.tree.leaves(table), jax.tree.leaves(saved), strict=True):
        np.copyto(array, values)


def _restore(
    kept: Checkpoints, tree: tuple[Tree, ...], marks: Sequence[int], own: dict[str, int]
) -> tuple[int, tuple[Tree, ...] | None]:
    """Returns how many segments are done, and what was saved after the last of them."""
    if kept.directory is None or not (saved := checkpoints.restore(kept.directory, tree)):
        return 0, None
    mark, values = saved
    again = f"; remove the folder {kept.directory} to start the run again"
    theirs = values[-1].tolist() if own else []
    other = [name for name, number in zip(own, theirs, strict=True) if number != own[name]]
    if other:
        raise InputError(f"the checkpoint is of other {', '.join(other)} than this run's{again}")
    if mark not in marks:
        raise InputError(f"the checkpoint is of step {mark}, where this run does not stop{again}")
    return list(marks).index(mark) + 1, values


def run_segments(
    state: Tree,
    table: Tree,
    marks: Sequence[int],
    advance: Callable[[Tree, int], Tree],
    *,
    kept: Checkpoints = NOWHERE,
    layout: Layout | None = None,
    going: Callable[[Tree, int], bool] = lambda state, index: True,
    identity: Callable[[], dict[str, int]] = dict,
    lengths: Sequence[int] | None = None,
    progress: Callable[[int], None] = lambda mark: None,
) -> tuple[Tree, int]:
    """Goes from segment to segment, from the last checkpoint if there is one.

    Args:
        state: at the start; on the devices of `layout`, or numpy arrays where that is None.
        table: numpy arrays, which `advance` writes into; restored in place.
        marks: by segment the number that its checkpoint has, increasing: steps, epochs.
        advance: `(state, segment) -> state` after it.
        kept: where to save, and how often.
        layout: how the state lies on the devices between segments.
        going: `(state, segment)`: whether that segment is still to be trained.
        identity: returns what tells the run from others, numbers of 32 bits by what they are of
            (see `identities`); a checkpoint of others is refused. It is asked where one is kept.
        lengths: of the segments; in a dry run those of one length stand for each other.
        progress: called with a segment's mark after it.

    Returns:
        The state at the end, and the segments that are done.

    Raises:
        InputError: the checkpoint is of another run.
    """
    if backend.dry_run() is not None:
        kept = NOWHERE
    own = {} if kept.directory is None else identity()
    numbers = (np.array([*own.values()], np.uint32),) if own else ()

    def everything() -> tuple[Tree, ...]:
        return (layout.gather(state) if layout else state, table, *numbers)

    done, saved = _restore(kept, everything(), marks, own)
    if saved is not None:
        state = placed(layout, saved[0]) if layout else saved[0]
        _write_into(table, saved[1])
    left = range(done, len(marks))
    for place in left if lengths is None else backend.each(left, lengths[done:]):
        if backend.dry_run() is None and not going(state, place):
            break
        state, done = advance(state, place), place + 1
        if kept.directory and (done % kept.every == 0 or done == len(marks)):
            checkpoints.save(kept.directory, marks[place], everything())
        progress(marks[place])
    return state, done


class Evaluations(NamedTuple):
    """Replicas that are measured now and then on their way.

    Attributes:
        steps: after which they are measured.
        state: numpy [replicas, ...] after the last evaluation that is done.
        table: by measure, NaN where an evaluation is not done.
        last: the number of the last one that is done, from 0.
        cost: what measuring took; None where no course was given.
        measured: columns of the table that the course has, NaN where it takes nothing.
    """

    steps: Sequence[int]
    state: Any
    table: dict[str, Float[np.ndarray, "evaluations replicas"]]
    last: int
    cost: "Cost | None" = None
    measured: tuple[str, ...] = ()

    def history(self, replica: int) -> list[dict[str, Any]]:
        """Returns a row for each evaluation that a replica came to, with what was taken there."""
        taken = self.state.step[replica]
        done = enumerate(self.steps[: self.last + 1])
        return [self.row(replica, place) for place, step in done if step <= taken]

    def row(self, replica: int, place: int) -> dict[str, Any]:
        """Returns one evaluation of a replica, with what was taken there, and its `step`."""
        return {"step": self.steps[place]} | {
            name: values[place, replica].item()
            for name, values in self.table.items()
            if name not in self.measured or np.isfinite(values[place, replica])
        }

    @property
    def stopped(self) -> Bool[np.ndarray, " replicas"]:
        """Of each replica, whether it has taken fewer steps than were due; states have `step`."""
        return self.state.step < self.steps[self.last]


def run_evaluations(
    layout: Layout,
    program: Callable[[Any, Array], tuple[Any, dict[str, Array]]],
    stages: Sequence[Any],
    steps: Sequence[int],
    *,
    kept: Checkpoints,
    finished: Callable[[Evaluations], bool] = lambda runs: False,
    course: "Course | None" = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Evaluations:
    """Takes the steps from one evaluation to the next, from the last checkpoint if there is one.

    Args:
        layout: how the replicas lie on the devices.
        program: mapped by the layout; `(state, steps to take) -> (state, measures there)`.
        stages: states at the first evaluations, that are measured as they are; one at least.
        steps: after which to measure; the first at the first stage.
        kept: where to save, and after how many evaluations.
        finished: whether to end there.
        course: measures that are taken at some of the steps, of states that have `params`; they
            become columns of the table.
        progress: called with the fraction done.
    """
    table: dict[str, np.ndarray] = {}
    seconds: list[float] = []  # of training, between two evaluations

    def evaluate(state: Any, index: int) -> Any:
        count = steps[index] - steps[max(index - 1, 0)]
        if index < len(stages):
            state, count = placed(layout, stages[index]), 0
        begun = time.monotonic()
        state, row = program(state, layout.share(jnp.int32(count)))
        found = layout.gather(row)  # waits for the devices
        seconds.extend([time.monotonic() - begun] if count else [])
        for name, values in found.items():
            table.setdefault(name, np.full((len(steps), len(values)), np.nan))[index] = values
        if course is not None and steps[index] in course.marks:
            course.take(steps[index], layout.gather(state).params)
        return state

    def runs(state: Any, last: int) -> Evaluations:
        measured = {} if course is None else course.table(steps)
        cost = course and course.cost(seconds, len(steps) - len(stages))
        columns = table | measured
        return Evaluations(steps, layout.gather(state), columns, last, cost, tuple(measured))

    state, done = run_segments(
        evaluate(stages[0], 0),
        table if course is None else (table, course.values),
        range(1, len(steps)),
        lambda state, segment: evaluate(state, segment + 1),
        kept=kept,
        layout=layout,
        going=lambda state, segment: not finished(runs(state, segment)),
        progress=lambda index: progress(steps[index] / steps[-1]),
    )
    return runs(state, done)
