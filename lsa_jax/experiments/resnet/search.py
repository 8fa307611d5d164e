"""A search over what varies between replicas (learning rate, weight decay), pruned on the way.

All candidates start from the same parameters and see the same batches. They are trained from rung
to rung; at each, those that cannot win any more are dropped:

* candidates whose loss was not finite at some step, or whose test error is not finite or above
  `hopeless`;
* of the others, all but the `keep` with the least test error.

The winner has the least test error of those that are finite at the last epoch. A search is a
function of its arguments alone; it goes on from the last rung after a kill, and ends with the same
bits.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.models.model import Model
from lsa_jax.parallel import ReplicaLayout, replicas_at_once
from lsa_jax.training.course import NOTHING, Cost, Course, Measuring, course_of
from lsa_jax.training.losses import squared_error
from lsa_jax.training.programs import (
    PyTree,
    Recipe,
    ReplicaState,
    Source,
    make_epoch,
    make_evaluate,
    split,
)
from lsa_jax.training.segments import Checkpoints, run_segments


class Rung(NamedTuple):
    """After so many epochs, at most `keep` candidates go on."""

    epoch: int
    keep: int


class Plan(NamedTuple):
    """How candidates are trained and when they are compared.

    Attributes:
        epochs: passes over the training examples.
        batch_size: examples a step.
        eval_every: epochs between evaluations; rungs and the last epoch are evaluated too.
        rungs: where candidates are dropped, epochs increasing.
        hopeless: at a rung, a test error above it is as bad as one that is not finite.
    """

    epochs: int
    batch_size: int
    eval_every: int
    rungs: tuple[Rung, ...]
    hopeless: float

    def evaluations(self) -> list[int]:
        """Returns the epochs, increasing, after which candidates are evaluated."""
        regular = range(self.eval_every, self.epochs, self.eval_every)
        return sorted({*regular, *(rung.epoch for rung in self.rungs), self.epochs})


class SearchResult(NamedTuple):
    """What a search found.

    Attributes:
        best: the winner's place among the candidates; None where none reached the end.
        params: [candidates, ...], the parameters at each candidate's last rung or at the end.
        epochs: [e] of the evaluations.
        train_error: [e, candidates]; NaN from where a candidate was dropped.
        test_error: [e, candidates].
        trained: [candidates], epochs that each was trained for, to its last finite loss.
        measured: of the winner, a row an epoch at which measures were taken.
        cost: what measuring all candidates took; None where nothing was measured.
    """

    best: int | None
    params: PyTree
    epochs: list[int]
    train_error: Float[np.ndarray, "e c"]
    test_error: Float[np.ndarray, "e c"]
    trained: Int[np.ndarray, " c"]
    measured: list[dict[str, float]]
    cost: Cost | None


class _Candidates(NamedTuple):
    """All candidates between two rungs, and which of them are still in the race."""

    state: ReplicaState
    alive: Bool[np.ndarray, " c"]


def squared_distance(
    outputs: Float[Array, "n k"], targets: Float[Array, "n k"]
) -> Float[Array, " n"]:
    """Returns the squared distance, summed over the outputs: the errors of a search."""
    return 2 * squared_error(outputs, targets)


def survivors(
    errors: Float[np.ndarray, " c"], finite: Bool[np.ndarray, " c"], keep: int, hopeless: float
) -> Bool[np.ndarray, " c"]:
    """Returns who goes on from a rung; see the module. Ties go to the earlier candidate."""
    fine = finite & np.isfinite(errors) & (np.nan_to_num(errors, nan=np.inf) <= hopeless)
    order = np.argsort(np.where(fine, errors, np.inf), kind="stable")[:keep]
    chosen = np.zeros(len(errors), bool)
    chosen[order] = True
    return chosen & fine


class Search:
    """The compiled programs of one search; serves every start and data set of the same shapes."""

    def __init__(
        self,
        apply: Callable[[PyTree, Any], Array],
        optimizer: Callable[[PyTree], optax.GradientTransformation],
        plan: Plan,
        *,
        num_train: int,
        num_test: int,
        frozen: tuple[str, ...] = (),
        fetch: Callable | None = None,
    ) -> None:
        """Prepares a search; programs are compiled when they are first used.

        Args:
            apply: `(params, inputs) -> outputs [n, k]`, trained by the squared error.
            optimizer: makes an optax transformation from one candidate's values.
            plan: how long, and who is dropped when.
            num_train: training examples.
            num_test: test examples.
            frozen: top-level entries of the parameters that stay.
            fetch: as in `training.Source`; default: rows of a `Dataset`.
        """
        self._plan = plan
        self._optimizer = optimizer
        self._frozen = frozen
        options = {} if fetch is None else {"fetch": fetch}
        self._sources = {
            "train": Source(None, num_train, **options),
            "test": Source(None, num_test, **options),
        }
        self._apply = apply
        self._steps_per_epoch = -(-num_train // plan.batch_size)
        self._programs: dict[int, tuple[ReplicaLayout, Callable]] = {}

    def run(
        self,
        key: Key[Array, ""],
        start: PyTree,
        data: PyTree,
        test: PyTree,
        candidates: dict[str, Float[np.ndarray, " c"]],
        *,
        checkpoint_dir: Path | None = None,
        progress: Callable[[float], None] | None = None,
        observe: Callable[[int, PyTree], None] | None = None,
        measuring: Measuring = NOTHING,
    ) -> SearchResult:
        """Searches.

        Args:
            key: draws the order of the examples, the same for all candidates.
            start: parameters that all candidates start from.
            data: what `fetch` takes training batches from.
            test: the same for testing.
            candidates: values by name, handed to `optimizer` one candidate at a time.
            checkpoint_dir: where rungs are saved; None keeps nothing.
            progress: called with the fraction done.
            observe: called with the epoch and the parameters [candidates, ...] at each evaluation
                of this call, not of those before a kill; copy what is to be kept, as the arrays
                are written into.
            measuring: how lazy or rich the candidates are, measured at evaluations.

        Returns:
            The winner and what was measured on the way.
        """
        plan, epochs = self._plan, self._plan.evaluations()
        keep = {rung.epoch: rung.keep for rung in plan.rungs}
        # Saved after each rung and at the end, by the number of the evaluation.
        marks = [i for i, e in enumerate(epochs, start=1) if e in keep or e == plan.epochs]
        errors = np.full((2, len(epochs), len(next(iter(candidates.values())))), np.nan)
        begin, seconds = self._begin(start, candidates), []
        course = self._course(measuring, begin.state.params, data)

        def advance(now: _Candidates, segment: int) -> _Candidates:
            now = now._replace(state=jax.tree.map(np.array, now.state))  # to be written into
            if course and segment == 0:
                course.take(0, now.state.params)
            for place in range(marks[segment - 1] if segment else 0, marks[segment]):
                count = jnp.int32(epochs[place] - (epochs[place - 1] if place else 0))
                if now.alive.any():
                    begun = time.monotonic()
                    self._advance(now, errors[:, place], candidates, (data, test, count, key))
                    seconds.append(time.monotonic() - begun)
                if course:
                    course.take(epochs[place], now.state.params, np.flatnonzero(now.alive).tolist())
                if observe:
                    observe(epochs[place], now.state.params)
                if progress:
                    progress(epochs[place] / plan.epochs)
            return self._prune(now, errors[1, place], epochs[place], keep.get(epochs[place]))

        table = (errors, course.values) if course else errors
        now = run_segments(begin, table, marks, advance, kept=Checkpoints(checkpoint_dir)).state
        final = np.where(now.alive, errors[1, -1], np.inf)
        best = int(np.argmin(final)) if now.alive.any() else None
        trained = now.state.step // self._steps_per_epoch
        measured = course.rows_of(best, "epoch") if course and best is not None else []
        cost = course and course.cost(seconds, len(epochs))
        return SearchResult(best, now.state.params, epochs, *errors, trained, measured, cost)

    def _course(self, measuring: Measuring, starts: PyTree, data: PyTree) -> Course | None:
        """Returns what is measured of all candidates, on the same training examples."""
        source, epochs = self._sources["train"], self._plan.epochs

        def fetch(replica: int, index: Array) -> Dataset:
            return source.fetch(data, None, index, jnp.int32(0))

        marks, count = [0, *self._plan.evaluations()], source.num_examples
        return course_of(measuring, self._apply, starts, fetch, count, marks, epochs * count)

    def _prune(
        self, now: _Candidates, test_error: np.ndarray, epoch: int, keep: int | None
    ) -> _Candidates:
        """Drops those that do not go on from a rung, or at the end those that are not finite."""
        finite = now.alive & (now.state.step == epoch * self._steps_per_epoch)
        limits = (len(finite), np.inf) if keep is None else (keep, self._plan.hopeless)
        return now._replace(alive=survivors(test_error, finite, *limits))

    def _begin(self, start: PyTree, candidates: dict[str, np.ndarray]) -> _Candidates:
        size = len(next(iter(candidates.values())))
        one = {name: values[0] for name, values in candidates.items()}
        trained, _ = split(start, self._frozen)
        state = ReplicaState(start, self._optimizer(one).init(trained), jnp.int32(0), jnp.int32(0))
        stacked = jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], size, axis=0), state)
        return _Candidates(stacked, np.ones(size, bool))

    def _advance(
        self, now: _Candidates, errors: np.ndarray, candidates: dict[str, np.ndarray], given: PyTree
    ) -> None:
        """Trains and evaluates those that are alive, some at a time.

        Args:
            now: is written into.
            errors: [train and test, candidates], written into.
            candidates: their values.
            given: what all share: both data sets, how many epochs, the key of the order.
        """
        alive = np.flatnonzero(now.alive)
        count = replicas_at_once(len(alive))
        layout, program = self._program(count)
        shared = layout.share(given)
        for first in range(0, len(alive), count):
            chosen = alive[first : first + count]
            padded = np.append(chosen, np.repeat(chosen[-1:], count - len(chosen)))
            of_chosen = jax.tree.map(lambda a, i=padded: a[i], (now.state, candidates))
            state, row = layout.gather(program(*layout.spread(of_chosen), *shared))
            for target, values in zip(
                jax.tree.leaves(now.state), jax.tree.leaves(state), strict=True
            ):
                target[chosen] = values[: len(chosen)]
            errors[:, chosen] = np.stack([row["train"], row["test"]])[:, : len(chosen)]

    def _program(self, count: int) -> tuple[ReplicaLayout, Callable]:
        """Returns the program that advances so many candidates."""
        if count not in self._programs:
            layout = ReplicaLayout(count)
            recipe = Recipe(
                Model(None, self._apply, None),
                squared_error,
                self._optimizer,
                {"error": squared_distance},
                self._plan.batch_size,
                self._sources["test"].num_examples,
                self._frozen,
                layout,
            )
            train_epoch = make_epoch(recipe, self._sources["train"])
            measure = {n: make_evaluate(recipe, source) for n, source in self._sources.items()}

            def advance(
                state: ReplicaState,
                candidate: PyTree,
                data: PyTree,
                test: PyTree,
                num_epochs: Array,
                key: Array,
            ) -> tuple[ReplicaState, dict[str, Array]]:
                state = lax.fori_loop(
                    0, num_epochs, lambda _, s: train_epoch(s, key, candidate, data)[0], state
                )
                errors = {
                    "train": measure["train"](state, candidate, data)[0]["error"],
                    "test": measure["test"](state, candidate, test)[0]["error"],
                }
                return state, errors

            self._programs[count] = (layout, layout.map(advance, 2))
        return self._programs[count]
