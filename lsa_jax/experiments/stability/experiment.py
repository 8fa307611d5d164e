"""How much one example changes what SGD learns, beside the generalisation gap it is to explain.

Karp (thesis, 2024), chapter 2 and appendix A. Pairs of samples S and S' differ in one example; both
models of a pair have one start and one order. The pairs of one size are replicas of one program.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array

from lsa_jax import parallel
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.experiments.stability import linear, networks
from lsa_jax.experiments.stability.data import Data, data_key, load
from lsa_jax.experiments.stability.influence import run_influence
from lsa_jax.experiments.stability.measures import MEASURES
from lsa_jax.experiments.stability.report import make_report
from lsa_jax.experiments.stability.samples import (
    ExamplePool,
    Pair,
    draw_order,
    draw_pair,
    start_key,
)
from lsa_jax.experiments.stability.settings import LINEAR, report_step
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.sweep.experiment import Experiment, Outcome, with_course
from lsa_jax.sweep.points import Point, group_points, split_groups
from lsa_jax.training.course import Cost, Course, Measuring, course_of_weights
from lsa_jax.training.segments import Checkpoints, placed, run_segments

Tree = Any

_AXES = ("learner", "perturbation", "seed", "m")


class PairPrograms(NamedTuple):
    """One learner's functions of one pair; `fixed` is shared by all.

    Attributes:
        start: both models before the first update, numpy arrays [2, ...].
        fixed: arrays that no model trains.
        advance: `(models, pair, pool, fixed, order, count) -> models`.
        measure: `(models, pair, pool, fixed) -> {quantity: number}`.
        connect: the same to accuracies [alphas]; None for linear models.
    """

    start: Tree
    fixed: Tree
    advance: Callable
    measure: Callable
    connect: Callable | None


def groups(points: list[Point]) -> list[list[Point]]:
    """Puts up to `max_replicas` pairs together that differ in nothing else."""
    return split_groups(group_points(points, lambda config: ("pair",)))


def _linear_programs(config: ml_collections.ConfigDict, data: Data) -> PairPrograms:
    start = linear.init(start_key(config.seed), data.pool.inputs.shape[1])

    def advance(models: Tree, pair: Pair, pool: ExamplePool, fixed: Tree, *order: Array) -> Tree:
        return linear.advance(config, models, pair, pool, *order)

    def measure(models: Tree, pair: Pair, pool: ExamplePool, fixed: Tree) -> dict[str, Array]:
        return linear.measure(config, data.num_train, models, pair, pool)

    return PairPrograms(start, {}, advance, measure, None)


def _network_programs(config: ml_collections.ConfigDict, data: Data) -> PairPrograms:
    inputs, targets = data.pool
    learner = networks.make_learner(config, inputs.shape[1:], targets.shape[1])
    init = functools.partial(networks.init, config, learner)
    start = parallel.compile_function(init)(start_key(config.seed))
    count = min(data.num_train, config.training.batch_size * config.model.statistics_batches)
    first = jnp.asarray(inputs[:count], jnp.float32) * networks.unpacked_scale(inputs)
    fixed = parallel.compile_function(learner.fixed)(
        jax.tree.map(lambda a: a[0], start.params), first
    )
    connect = functools.partial(networks.connect, config, learner, data.num_train)
    return PairPrograms(
        start,
        fixed,
        functools.partial(networks.advance, config, learner),
        functools.partial(networks.measure, config, learner, data.num_train),
        connect,
    )


def make_programs(config: ml_collections.ConfigDict, data: Data) -> PairPrograms:
    """Returns the functions of the configuration's learner."""
    make = _linear_programs if config.learner in LINEAR else _network_programs
    return make(config, data)


def _with_paths(group: list[Point]) -> list[int]:
    """Returns which points of a group are to measure accuracy between their models."""
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
        programs = make_programs(config, data)
        self.layout = layout = ReplicaLayout(len(group))
        self._data = data
        pairs = [
            draw_pair(
                config.seed,
                config.m,
                point.config.pair,
                num_train=data.num_train,
                num_test=len(data.pool.targets) - data.num_train,
                perturbation=config.perturbation,
            )
            for point in group
        ]
        self._pairs = layout.spread(stack(pairs))
        self._shared = layout.share((data.pool, programs.fixed))
        self._advance = layout.map(programs.advance, 2)
        self._measure = layout.map(programs.measure, 2)
        self._programs = programs
        self._chosen = _with_paths(group)
        self._drawn = pairs
        self._order = jax.jit(
            functools.partial(
                draw_order,
                config.seed,
                config.m,
                config.training.batch_size,
                num_steps=config.checkpoint_every,
            )
        )
        self.start = placed(layout, stack([programs.start] * len(group)))

    def advance(self, models: Tree, first_step: int, count: int) -> Tree:
        order = self.layout.share(self._order(jnp.int32(first_step)))
        arguments = (*self._shared, order, self.layout.share(jnp.int32(count)))
        return self._advance(models, self._pairs, *arguments)

    def measure(self, models: Tree) -> dict[str, np.ndarray]:
        return self.layout.gather(self._measure(models, self._pairs, *self._shared))

    def connect(self, models: Tree) -> dict[str, np.ndarray]:
        """Returns accuracies [pairs with a path, alphas]."""
        layout = ReplicaLayout(len(self._chosen))
        chosen = jax.tree.map(lambda a: a[self._chosen], self.layout.gather(models))
        pairs = layout.spread(stack([self._drawn[i] for i in self._chosen]))
        shared = layout.share((self._data.pool, self._programs.fixed))
        connect = layout.map(self._programs.connect, 2)
        return layout.gather(connect(layout.spread(chosen), pairs, *shared))


def _boundaries(config: ml_collections.ConfigDict) -> list[int]:
    """Returns the updates after which Python comes up: stops and checkpoints."""
    last = max(config.stops)
    return sorted({*config.stops, *range(config.checkpoint_every, last, config.checkpoint_every)})


def _of_s(params: Tree) -> Tree:
    """Returns the parameters of the models on S."""
    return jax.tree.map(lambda leaf: leaf[:, 0], params)


class Trained(NamedTuple):
    """What training a group left.

    Attributes:
        table: [stops, measures, pairs].
        paths: accuracies [pairs with a path, alphas] by split.
        course: what was measured of the networks on the way; None if nothing.
        cost: what that took.
    """

    table: np.ndarray
    paths: dict[str, np.ndarray]
    course: Course | None
    cost: Cost | None


def _train(
    group: list[Point], data: Data, directory: Path, progress: Callable[[float], None]
) -> Trained:
    """Trains a group from its last checkpoint."""
    config, run = group[0].config, _Training(group, data)
    table = np.full((len(config.stops), len(MEASURES), len(group)), np.nan)
    chosen = _with_paths(group)
    shape = (len(chosen), config.connectivity.num_alphas)
    names = ("train_accuracy", "test_accuracy") if chosen else ()
    paths = {name: np.full(shape, np.nan, np.float32) for name in names}
    steps, course = [0, *_boundaries(config)], None
    if config.measures:
        start = run.layout.gather(run.start).params
        course = course_of_weights(Measuring(config.measures, network=_of_s), start, steps)

    def advance(models: Tree, segment: int) -> Tree:
        before, step = steps[segment : segment + 2]
        models = run.advance(models, before, step - before)
        if step in config.stops:
            row = run.measure(models)
            table[config.stops.index(step)] = [row[name] for name in MEASURES]
        if step == report_step(config) and chosen:
            paths.update(run.connect(models))
        return models

    found = run_segments(
        run.start,
        (table, paths),
        steps[1:],
        advance,
        kept=Checkpoints(directory),
        layout=run.layout,
        progress=lambda step: progress(step / steps[-1]),
        course=course,
    )
    return Trained(table, paths, course, found.cost)


def _outcome(
    config: ml_collections.ConfigDict, values: np.ndarray, paths: dict[str, np.ndarray]
) -> Outcome:
    """Returns one pair's outcome from its measures [stops, measures] and paths [alphas]."""
    settings = {name: config[name] for name in (*_AXES, "pair")}
    rows = [
        {"step": step, **dict(zip(MEASURES, row.tolist(), strict=True))}
        for step, row in zip(config.stops, values, strict=True)
    ]
    for step, row in zip(config.stops, values, strict=True):
        if not np.isfinite(row).all():
            message = f"a loss was not finite within {step} updates"
            return Outcome(
                settings, rows, "failed", f"{message}; lower config.training.learning_rate"
            )
    if paths:
        columns = {"alpha": networks.alphas(config), **paths}
        rows += [
            {"step": report_step(config), **dict(zip(columns, map(float, place), strict=True))}
            for place in zip(*columns.values(), strict=True)
        ]
    at = config.stops.index(report_step(config))
    return Outcome(settings | dict(zip(MEASURES, values[at].tolist(), strict=True)), rows)


def run(
    group: list[Point],
    data: dict[str, Data],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Trains and measures the pairs of a group, or answers the question on influence."""
    config = group[0].config
    own = data[data_key(config)]
    if config.question == "influence":
        return [run_influence(point.config, own.pool, own.num_train) for point in group]
    trained, paths = _train(group, own, directory, progress), {}
    for k, i in enumerate(_with_paths(group)):
        paths[i] = {name: values[k] for name, values in trained.paths.items()}
        largest = best_constant_accuracy(own.pool.targets[own.num_train :])
        paths[i]["chance"] = np.full(len(networks.alphas(config)), largest)
    return [
        with_course(
            _outcome(point.config, trained.table[:, :, i], paths.get(i, {})),
            trained.course.rows_of(i) if trained.course else [],
            trained.cost,
        )
        for i, point in enumerate(group)
    ]


EXPERIMENT = Experiment(load=load, groups=groups, run=run, report=make_report)
