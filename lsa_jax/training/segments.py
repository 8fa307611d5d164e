"""The training engine: work in segments, so that a killed run continues with the same bits.

All training goes through `run_segments`. After each segment control returns to Python to measure,
save and report. Measured values lie in a table of numpy arrays that is saved with the state. The
compiled steps keep a replica's state as it was before a loss that was not finite (`kept_if`); a run
ends once all replicas have stopped.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from lsa_jax import backend
from lsa_jax.errors import InputError
from lsa_jax.parallel import Layout, kept_programs
from lsa_jax.training import checkpoints
from lsa_jax.training.course import Cost, Course

Tree = TypeVar("Tree")


class Checkpoints(NamedTuple):
    """Where and how often a run is saved.

    Attributes:
        directory: None saves nothing.
        every: segments between two checkpoints; the last one that is run is always saved.
    """

    directory: Path | None = None
    every: int = 1


NOWHERE = Checkpoints()


class Ran(NamedTuple):
    """The end of a run: its state, number of segments done, and the cost of measuring, if any."""

    state: Any
    done: int
    cost: Cost | None


def kept_if(going: Bool[Array, ""], after: Tree, before: Tree) -> Tree:
    """Returns the state after a step, or the one before it where the step must not be taken."""
    return jax.tree.map(lambda new, old: jnp.where(going, new, old), after, before)


def placed(layout: Layout, tree: Tree) -> Tree:
    """Puts [replicas, ...] on the devices with the sharding of a mapped function's results.

    A program would be compiled a second time for another sharding in its first call.
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
    """Returns the number of segments done and the arrays saved after the last of them."""
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
    course: Course | None = None,
    measured: Sequence[int] | None = None,
) -> Ran:
    """Runs segment after segment, from the last checkpoint if there is one.

    Args:
        state: at the start; on the devices of `layout`, or numpy arrays where that is None.
        table: numpy arrays that `advance` writes into; restored in place.
        marks: number of each segment's checkpoint, increasing: steps, epochs.
        advance: `(state, segment) -> state` after it.
        kept: where to save, and how often.
        layout: placement of the state on the devices between segments.
        going: `(state, segment)`: whether that segment is still to be run.
        identity: returns hashes of the run by name; a checkpoint with other
            hashes is refused. Called only where checkpoints are kept.
        lengths: of the segments; in a dry run one segment of each length is run.
        progress: called with a segment's mark after it.
        course: measures to take at the start and after segments, of states with `params`; needs
            a layout, and is saved with the table.
        measured: number of each segment's end among the course's marks; default: `marks`.

    Raises:
        InputError: the checkpoint is of another run.
    """
    if backend.dry_run() is not None:
        kept = NOWHERE
    elif kept.directory is not None:
        kept = kept._replace(directory=Path(kept.directory))
    tables = table if course is None else (table, course.values)
    own = {} if kept.directory is None else identity()
    numbers = (np.array([*own.values()], np.uint32),) if own else ()
    seconds: list[float] = []

    def everything() -> tuple[Tree, ...]:
        return (layout.gather(state) if layout else state, tables, *numbers)

    def take(mark: int) -> None:
        if course is not None and mark in course.marks:
            course.take(mark, layout.gather(state.params))

    done, saved = _restore(kept, everything(), marks, own)
    if saved is not None:
        state = placed(layout, saved[0]) if layout else saved[0]
        _write_into(tables, saved[1])
    elif course is not None:
        take(course.marks[0])
    left = range(done, len(marks))
    for place in left if lengths is None else backend.each(left, lengths[done:]):
        if backend.dry_run() is None and not going(state, place):
            if kept.directory and done > left.start and done % kept.every:
                checkpoints.save(kept.directory, marks[done - 1], everything())
            break
        begun = time.monotonic()
        state, done = advance(state, place), place + 1
        if course is not None:
            jax.block_until_ready(state)
            seconds.append(time.monotonic() - begun)
            take((measured or marks)[place])
        if kept.directory and (done % kept.every == 0 or done == len(marks)):
            checkpoints.save(kept.directory, marks[place], everything())
        progress(marks[place])
    return Ran(state, done, course and course.cost(seconds, len(marks)))


class Evaluations(NamedTuple):
    """Replicas and their measures at a run's evaluations."""

    steps: Sequence[int]  # taken before each evaluation
    state: Any  # numpy [replicas, ...] after the last evaluation that is done; has `step`
    table: dict[str, Float[np.ndarray, "evaluations replicas ..."]]  # NaN where it is not done
    last: int  # number of the last evaluation that is done, from 0
    cost: Cost | None = None  # of measuring; None where no course was given
    measured: tuple[str, ...] = ()  # the course's columns, NaN between its marks

    def history(self, replica: int) -> list[dict[str, Any]]:
        """Returns a row for each evaluation that a replica reached."""
        taken = self.state.step[replica]
        done = enumerate(self.steps[: self.last + 1])
        return [self.row(replica, place) for place, step in done if step <= taken]

    def row(self, replica: int, place: int) -> dict[str, Any]:
        """Returns a replica's values at one evaluation, by column, and its `step`."""
        return {"step": self.steps[place]} | {
            name: values[place, replica].item()
            for name, values in self.table.items()
            if name not in self.measured or np.isfinite(values[place, replica])
        }

    @property
    def stopped(self) -> Bool[np.ndarray, " replicas"]:
        """Whether each replica has taken fewer steps than were due."""
        return self.state.step < self.steps[self.last]


def run_evaluations(
    layout: Layout,
    program: Callable[[Any, Array], tuple[Any, dict[str, Array]]],
    stages: Sequence[Any],
    steps: Sequence[int],
    *,
    kept: Checkpoints,
    finished: Callable[[Evaluations], bool] = lambda runs: False,
    course: Course | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Evaluations:
    """Runs from one evaluation to the next, from the last checkpoint if there is one.

    Args:
        layout: placement of the replicas on the devices.
        program: mapped by the layout; `(state, steps to take) -> (state, measures there)`.
        stages: states at the first evaluations, measured without a step; at least one.
        steps: numbers of steps before the evaluations; the first is the first stage's.
        kept: where to save, and after how many evaluations.
        finished: whether to end at an evaluation.
        course: measures taken at some of the steps, of states with `params`; they become columns
            of the table.
        progress: called with the fraction done.
    """
    table: dict[str, np.ndarray] = {}

    def evaluate(state: Any, index: int) -> Any:
        count = steps[index] - steps[max(index - 1, 0)]
        if index < len(stages):
            state, count = placed(layout, stages[index]), 0
        state, row = program(state, layout.share(jnp.int32(count)))
        for name, values in layout.gather(row).items():
            table.setdefault(name, np.full((len(steps), *values.shape), np.nan))[index] = values
        return state

    def runs(state: Any, last: int, cost: Cost | None = None) -> Evaluations:
        measured = {} if course is None else course.table(steps)
        columns = table | measured
        return Evaluations(steps, layout.gather(state), columns, last, cost, tuple(measured))

    found = run_segments(
        evaluate(stages[0], 0),
        table,
        range(1, len(steps)),
        lambda state, segment: evaluate(state, segment + 1),
        kept=kept,
        layout=layout,
        going=lambda state, segment: not finished(runs(state, segment)),
        progress=lambda index: progress(steps[index] / steps[-1]),
        course=course,
        measured=steps[1:],
    )
    return runs(*found)
