"""How much one example changes a model trained by SGD, and the generalisation gap.

Karp (thesis, 2024), chapter 2 and appendix A. Pairs of samples S and S' differ in one example; both
models of a pair have one start and one order. The pairs of one size are replicas of one program.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lsa_jax import parallel
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.experiments.stability import linear, networks
from lsa_jax.experiments.stability.influence import run_influence
from lsa_jax.experiments.stability.report import make_report
from lsa_jax.experiments.stability.samples import (
    MEASURES,
    Data,
    ExamplePool,
    Pair,
    data_key,
    draw_order,
    draw_pair,
    load,
    start_key,
)
from lsa_jax.experiments.stability.settings import LINEAR, report_step
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, with_course, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import Measuring, course_of_weights
from lsa_jax.training.segments import Checkpoints, placed, run_segments

Tree = Any


def _programs(config: Config, data: Data) -> tuple[Tree, Tree, Callable, Callable, Callable | None]:
    """Returns the start of both models, arrays that no model trains, and a pair's functions.

    They are `(models, pair, pool, fixed, order, count) -> models`, `(models, pair, pool, fixed) ->
    ({quantity: number}, correct answers [test])`, and the same to accuracies [alphas], which linear
    models have not.
    """
    inputs, targets = data.pool
    if config.learner in LINEAR:

        def advance(models: Tree, pair: Pair, pool: ExamplePool, _: Tree, *order: Array) -> Tree:
            return linear.advance(config, models, pair, pool, *order)

        def measure(models: Tree, pair: Pair, pool: ExamplePool, _: Tree) -> Tree:
            return linear.measure(config, data.num_train, models, pair, pool)

        return linear.init(start_key(config.seed), inputs.shape[1]), {}, advance, measure, None
    learner = networks.make_learner(config, inputs.shape[1:], targets.shape[1])
    own = networks.Networks(config, learner, data.num_train)
    start = parallel.compile_function(own.init)(start_key(config.seed))
    count = min(data.num_train, config.training.batch_size * config.model.statistics_batches)
    first = jnp.asarray(inputs[:count], jnp.float32) * networks.unpacked_scale(inputs)
    of_s = jax.tree.map(lambda a: a[0], start.params)
    fixed = parallel.compile_function(learner.fixed)(of_s, first)
    return start, fixed, own.advance, own.measure, own.connect


def _with_paths(group: list[Point]) -> list[int]:
    """Returns the places of the points of a group whose paths are measured."""
    config = group[0].config
    if config.learner in LINEAR or config.m not in config.connectivity.sizes:
        return []
    return [i for i, p in enumerate(group) if p.config.pair < config.connectivity.pairs]


def stack(trees: list[Tree]) -> Tree:
    """Stacks equal trees into one of numpy arrays [len(trees), ...]."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


class _Training:
    """The pairs of one group on the devices."""

    def __init__(self, group: list[Point], data: Data) -> None:
        config = group[0].config
        start, self._fixed, advance, measure, self._connect = _programs(config, data)
        self.layout = layout = ReplicaLayout(len(group))
        given = data.sizes | {"perturbation": config.perturbation}
        self._drawn = [draw_pair(config.seed, config.m, p.config.pair, **given) for p in group]
        self._pairs = layout.spread(stack(self._drawn))
        self._shared = layout.share((data.pool, self._fixed))
        self._advance = layout.map(advance, 2)
        self._measure = layout.map(measure, 2)
        self._data = data
        order = (config.seed, config.m, config.training.batch_size)
        self._order = jax.jit(
            functools.partial(draw_order, *order, num_steps=config.checkpoint_every)
        )
        self.start = placed(layout, stack([start] * len(group)))

    def advance(self, models: Tree, first_step: int, count: int) -> Tree:
        order = self.layout.share(self._order(jnp.int32(first_step)))
        arguments = (*self._shared, order, self.layout.share(jnp.int32(count)))
        return self._advance(models, self._pairs, *arguments)

    def measure(self, models: Tree) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Returns quantities [pairs] by name, and correct answers [pairs, test examples]."""
        return self.layout.gather(self._measure(models, self._pairs, *self._shared))

    def connect(self, models: Tree, chosen: list[int]) -> dict[str, np.ndarray]:
        """Returns the accuracies [chosen, alphas] of pairs by split."""
        layout = ReplicaLayout(len(chosen))
        own = jax.tree.map(lambda a: a[chosen], self.layout.gather(models))
        pairs = layout.spread(stack([self._drawn[i] for i in chosen]))
        shared = layout.share((self._data.pool, self._fixed))
        return layout.gather(layout.map(self._connect, 2)(layout.spread(own), pairs, *shared))


def _of_s(params: Tree) -> Tree:
    """Returns the parameters of the models on S."""
    return jax.tree.map(lambda leaf: leaf[:, 0], params)


def _train(group: list[Point], data: Data, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains and measures a group from its last checkpoint."""
    config, run, chosen = group[0].config, _Training(group, data), _with_paths(group)
    last, every = max(config.stops), config.checkpoint_every
    steps, course = [0, *sorted({*config.stops, *range(every, last, every)})], None
    table = np.full((len(config.stops), len(MEASURES), len(group)), np.nan)
    right = np.zeros((len(group), data.sizes["num_test"]), bool)
    places = (len(chosen), config.connectivity.num_alphas)
    names = ("train_accuracy", "test_accuracy") if chosen else ()
    paths = {name: np.full(places, np.nan, np.float32) for name in names}
    if config.measures:
        start = run.layout.gather(run.start).params
        course = course_of_weights(Measuring(config.measures, network=_of_s), start, steps)

    def advance(models: Tree, segment: int) -> Tree:
        before, step = steps[segment : segment + 2]
        models = run.advance(models, before, step - before)
        if step in config.stops:
            row, correct = run.measure(models)
            table[config.stops.index(step)] = [row[name] for name in MEASURES]
        if step == report_step(config):
            right[:] = correct
            paths.update(run.connect(models, chosen) if chosen else {})
        return models

    found = run_segments(
        run.start,
        (table, right, paths),
        steps[1:],
        advance,
        kept=Checkpoints(directory),
        layout=run.layout,
        progress=lambda step: progress(step / steps[-1]),
        course=course,
    )
    outcomes = []
    for i, point in enumerate(group):
        own = {name: values[chosen.index(i)] for name, values in paths.items() if i in chosen}
        outcome = _outcome(point.config, data, table[:, :, i], own)
        outcome = outcome._replace(outcomes=Outcomes(right[i]) if outcome.status == "ok" else None)
        outcomes.append(with_course(outcome, course.rows_of(i) if course else [], found.cost))
    return outcomes


def _outcome(
    config: Config, data: Data, values: np.ndarray, paths: dict[str, np.ndarray]
) -> Outcome:
    """Returns one pair's outcome from its measures [stops, measures] and paths [alphas]."""
    rows = [
        {"step": step, **dict(zip(MEASURES, row.tolist(), strict=True))}
        for step, row in zip(config.stops, values, strict=True)
    ]
    lost = [s for s, row in zip(config.stops, values, strict=True) if not np.isfinite(row).all()]
    if lost:
        message = f"a loss was not finite within {min(lost)} updates"
        return Outcome({}, rows, "failed", f"{message}; lower config.training.learning_rate")
    if paths:
        chance = best_constant_accuracy(data.pool.targets[data.num_train :])
        for alpha, *accuracies in zip(networks.alphas(config), *paths.values(), strict=True):
            row = dict(zip(paths, map(float, accuracies), strict=True))
            place = {"step": report_step(config), "alpha": float(alpha)}
            rows.append(place | row | {"chance": chance})
    at = config.stops.index(report_step(config))
    return Outcome(dict(zip(MEASURES, values[at].tolist(), strict=True)), rows)


def run(
    group: list[Point], data: dict[str, Data], directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains and measures the pairs of a group, or answers the question on influence."""
    config = group[0].config
    pool, num_train = own = data[data_key(config)]
    if config.question == "influence":
        outcomes = [run_influence(point.config, own) for point in group]
    else:
        outcomes = _train(group, own, directory, progress)
    return with_test(outcomes, [pool.inputs[num_train:], pool.targets[num_train:]])


def _columns(config: Config) -> dict[str, Any]:
    names = ("learner", "perturbation", "seed", "m", "pair")
    left_out = ("perturbation", "pair") if config.question == "influence" else ()
    return {name: config[name] for name in names if name not in left_out}


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    load=load,
    varying=("pair",),  # pairs of one size are replicas of one program
    columns=_columns,
    in_parts=True,
    report_version=2,
)
