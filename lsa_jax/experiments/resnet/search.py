"""A search over learning rates and weight decays, pruned on the way.

All candidates start from the same parameters and see the same batches. SGD with momentum trains
them from rung to rung. A rung drops candidates whose loss was not finite at some step, or whose
test error is not finite or above `hopeless`; of the others, all but the `keep` with the least test
error. The winner has the least test error of the candidates that are finite at the last epoch.

After a kill a search continues from the last rung and ends with the same bits.
"""

import itertools
import time
from collections.abc import Callable, Sequence
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
from lsa_jax.sweep.experiment import Config, Progress
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

# Learning rates and weight decays of all candidates, by name.
Grid = dict[str, Float[np.ndarray, " c"]]


class Plan(NamedTuple):
    """How candidates are trained and when they are compared."""

    num_train: int
    num_test: int
    epochs: int
    batch_size: int
    momentum: float
    fall_epoch: int  # after which the learning rate is divided by 10
    eval_every: int  # epochs; rungs and the last epoch are evaluated too
    rungs: dict[int, int]  # by epoch, increasing: the most candidates that go on
    hopeless: float  # test error above which a rung drops candidates

    @classmethod
    def of(cls, config: Config, rungs: dict[int, int], hopeless: float) -> "Plan":
        """Returns the plan of an experiment's settings, which have the other fields' names."""
        settings = {name: config[name] for name in cls._fields if name not in ("rungs", "hopeless")}
        settings["batch_size"] = min(config.batch_size, config.num_train)
        return cls(**settings, rungs=rungs, hopeless=hopeless)

    @property
    def steps_per_epoch(self) -> int:
        """Batches an epoch; the last one may be smaller."""
        return -(-self.num_train // self.batch_size)

    def evaluations(self) -> list[int]:
        """Returns the epochs, increasing, after which candidates are evaluated."""
        return sorted(
            {*range(self.eval_every, self.epochs, self.eval_every), *self.rungs, self.epochs}
        )


class SearchResult(NamedTuple):
    """Result of a search of c candidates with e evaluations."""

    candidates: Grid
    best: int | None  # the winner's place; None where no candidate reached the end
    params: PyTree  # [c, ...] at each candidate's last rung or at the end
    epochs: list[int]  # of the evaluations
    train_error: Float[np.ndarray, "e c"]  # NaN from where a candidate was dropped
    test_error: Float[np.ndarray, "e c"]
    trained: Int[np.ndarray, " c"]  # epochs, to the last finite loss
    measured: list[dict[str, float]]  # of the winner, a row an epoch
    cost: Cost | None  # of measuring all candidates

    def row(self, candidate: int, place: int = -1) -> dict[str, float]:
        """Returns the settings of a candidate, and its errors at an evaluation."""
        row = {name: values[candidate].item() for name, values in self.candidates.items()}
        row["train_error"] = self.train_error[place, candidate].item()
        return row | {"test_error": self.test_error[place, candidate].item()}


class _Candidates(NamedTuple):
    """All candidates between two rungs; `alive` marks the ones that are not dropped."""

    state: ReplicaState
    alive: Bool[np.ndarray, " c"]


def make_grid(rates: Sequence[float], decays: Sequence[float]) -> Grid:
    """Returns every learning rate with every weight decay."""
    grid = np.array(list(itertools.product(rates, decays)))
    return {"learning_rate": grid[:, 0], "weight_decay": grid[:, 1]}


def squared_distance(
    outputs: Float[Array, "n k"], targets: Float[Array, "n k"]
) -> Float[Array, " n"]:
    """Returns the squared distance, summed over the outputs: the errors of a search."""
    return 2 * squared_error(outputs, targets)


def survivors(
    errors: Float[np.ndarray, " c"], finite: Bool[np.ndarray, " c"], keep: int, hopeless: float
) -> Bool[np.ndarray, " c"]:
    """Returns which candidates pass a rung; ties go to the earlier candidate."""
    fine = finite & np.isfinite(errors) & (np.nan_to_num(errors, nan=np.inf) <= hopeless)
    best = np.argsort(np.where(fine, errors, np.inf), kind="stable")[:keep]
    return fine & np.isin(np.arange(len(errors)), best)


class Search:
    """Compiled programs of one search, for all starts and data sets of the same shapes."""

    def __init__(
        self,
        apply: Callable[[PyTree, Any], Array],
        plan: Plan,
        *,
        frozen: tuple[str, ...] = (),
        fetch: Callable | None = None,
    ) -> None:
        """Prepares a search of `(params, inputs) -> outputs [n, k]` by the squared error.

        `frozen` are top-level entries of the parameters that are not trained; `fetch` is as in
        `training.Source`, and takes rows of a `Dataset` where it is None.
        """
        self._apply, self._plan, self._frozen = apply, plan, frozen
        options = {} if fetch is None else {"fetch": fetch}
        self._train = Source(None, plan.num_train, **options)
        self._test = Source(None, plan.num_test, **options)
        self._programs: dict[int, tuple[ReplicaLayout, Callable]] = {}
        self._distances = jax.jit(self._distances_of)

    def run(
        self,
        key: Key[Array, ""],
        start: PyTree,
        data: PyTree,
        test: PyTree,
        candidates: Grid,
        *,
        checkpoint_dir: Path | None = None,
        progress: Progress | None = None,
        observe: Callable[[int, PyTree], None] | None = None,
        measuring: Measuring = NOTHING,
    ) -> SearchResult:
        """Trains all candidates from one start, in one order of the examples drawn from the key.

        `fetch` takes batches from `data` and `test`. `observe` is called with the epoch and the
        parameters [candidates, ...], which are written into later, at each evaluation of this call.
        """
        plan, epochs = self._plan, self._plan.evaluations()
        # Saved after each rung and at the end, by the number of the evaluation.
        marks = [i for i, e in enumerate(epochs, start=1) if e in {*plan.rungs, plan.epochs}]
        begin, seconds = self._begin(start, candidates), []
        errors = np.full((2, len(epochs), len(begin.alive)), np.nan)
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
            return self._prune(now, errors[1, place], epochs[place])

        table = (errors, course.values) if course else errors
        now = run_segments(begin, table, marks, advance, kept=Checkpoints(checkpoint_dir)).state
        final = np.where(now.alive, errors[1, -1], np.inf)
        best = int(np.argmin(final)) if now.alive.any() else None
        trained = now.state.step // plan.steps_per_epoch
        measured = course.rows_of(best, "epoch") if course and best is not None else []
        cost = course and course.cost(seconds, len(epochs))
        found = best, now.state.params, epochs, *errors, trained, measured, cost
        return SearchResult(candidates, *found)

    def distances(self, found: SearchResult, candidate: int, test: PyTree) -> Array:
        """Returns a candidate's squared distance from the targets of each test example, [n]."""
        return self._distances(jax.tree.map(lambda a: a[candidate], found.params), test)

    def _distances_of(self, params: PyTree, test: PyTree) -> Array:
        every = jnp.arange(self._plan.num_test)
        inputs, targets = self._test.fetch(test, None, every, jnp.int32(0))
        return squared_distance(self._apply(params, inputs), targets)

    def _course(self, measuring: Measuring, starts: PyTree, data: PyTree) -> Course | None:
        """Returns the measures of all candidates, taken on the same training examples."""
        plan = self._plan

        def fetch(replica: int, index: Array) -> Dataset:
            return self._train.fetch(data, None, index, jnp.int32(0))

        marks, count = [0, *plan.evaluations()], plan.num_train
        return course_of(measuring, self._apply, starts, fetch, count, marks, plan.epochs * count)

    def _prune(self, now: _Candidates, test_error: np.ndarray, epoch: int) -> _Candidates:
        """Drops candidates at a rung, and at the end the ones that are not finite."""
        plan = self._plan
        finite = now.alive & (now.state.step == epoch * plan.steps_per_epoch)
        keep = plan.rungs.get(epoch)
        limits = (len(finite), np.inf) if keep is None else (keep, plan.hopeless)
        return now._replace(alive=survivors(test_error, finite, *limits))

    def _optimizer(self, candidate: PyTree) -> optax.GradientTransformation:
        """Returns SGD: v <- momentum v + g + decay theta, theta <- theta - rate v."""
        plan, rate = self._plan, candidate["learning_rate"]
        fall = optax.piecewise_constant_schedule(1.0, {plan.fall_epoch * plan.steps_per_epoch: 0.1})
        return optax.chain(
            optax.add_decayed_weights(candidate["weight_decay"]),
            optax.sgd(lambda step: rate * fall(step), momentum=plan.momentum),
        )

    def _begin(self, start: PyTree, candidates: Grid) -> _Candidates:
        size = len(candidates["learning_rate"])
        one = {name: values[0] for name, values in candidates.items()}
        trained, _ = split(start, self._frozen)
        state = ReplicaState(start, self._optimizer(one).init(trained), jnp.int32(0), jnp.int32(0))
        stacked = jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], size, axis=0), state)
        return _Candidates(stacked, np.ones(size, bool))

    def _advance(
        self, now: _Candidates, errors: np.ndarray, candidates: Grid, given: PyTree
    ) -> None:
        """Trains and evaluates, in place, the candidates that are alive, some at a time."""
        alive = np.flatnonzero(now.alive)
        count = replicas_at_once(len(alive))
        if count not in self._programs:
            self._programs[count] = self._program(ReplicaLayout(count))
        layout, program = self._programs[count]
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
            errors[:, chosen] = np.stack(row)[:, : len(chosen)]

    def _program(self, layout: ReplicaLayout) -> tuple[ReplicaLayout, Callable]:
        """Returns a layout and the program that advances its candidates."""
        recipe = Recipe(
            Model(None, self._apply, None),
            squared_error,
            self._optimizer,
            {"error": squared_distance},
            self._plan.batch_size,
            self._plan.num_test,
            self._frozen,
            layout,
        )
        train_epoch = make_epoch(recipe, self._train)
        on_train, on_test = (make_evaluate(recipe, of) for of in (self._train, self._test))

        def advance(
            state: ReplicaState,
            candidate: PyTree,
            data: PyTree,
            test: PyTree,
            count: Array,
            key: Array,
        ) -> tuple[ReplicaState, tuple[Array, Array]]:
            state = lax.fori_loop(
                0, count, lambda _, s: train_epoch(s, key, candidate, data)[0], state
            )
            train_error = on_train(state, candidate, data)[0]["error"]
            return state, (train_error, on_test(state, candidate, test)[0]["error"])

        return layout, layout.map(advance, 2)
