"""How much one example changes what SGD learns, beside the generalisation gap it is to explain.

Karp (thesis, 2024), chapter 2 and appendix A. Pairs of samples S and S' differ in one example; both
models of a pair have one start and one order. The pairs of one size are replicas of one program.
"""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array

from lsa_jax import parallel
from lsa_jax.data import images, resize
from lsa_jax.errors import InputError
from lsa_jax.experiments.stability import linear, networks
from lsa_jax.experiments.stability.influence import run_influence
from lsa_jax.experiments.stability.measures import MEASURES
from lsa_jax.experiments.stability.report import make_report
from lsa_jax.experiments.stability.samples import (
    ExamplePool,
    Pair,
    draw_order,
    draw_pair,
    pack,
    start_key,
)
from lsa_jax.experiments.stability.settings import LINEAR, report_step
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.sweep.experiment import Experiment, Outcome
from lsa_jax.sweep.points import Point, group_points, split_groups
from lsa_jax.training.segments import Checkpoints, placed, run_segments

Tree = Any

_AXES = ("learner", "perturbation", "seed", "m")


class Data(NamedTuple):
    """What all points read.

    Attributes:
        pool: training pool, then test examples; flat rows and signs for linear models, images and
            one-hot rows for networks.
        num_train: size of the training pool.
    """

    pool: ExamplePool
    num_train: int


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


def _signs(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Returns -1 for the first half of the classes and 1 for the second."""
    return np.where(labels < num_classes / 2, -1.0, 1.0).astype(np.float32)


def make_data(config: ml_collections.ConfigDict, data_dir: Path | None) -> Data:
    """Reads the images and lays both splits in one pool.

    Raises:
        InputError: data are missing, or fewer than are asked for.
    """
    found = images.load(config.data.dataset, data_dir)
    test, count = found.test, config.data.num_test
    if count is not None:
        if count > len(test.targets):
            raise InputError(
                f"config.data.num_test is {count}; accepted: 1 to {len(test.targets)}, or None"
            )
        draws = np.random.default_rng(config.data.test_seed).random(len(test.targets))
        chosen = np.sort(np.argsort(draws)[:count])
        test = test._replace(inputs=test.inputs[chosen], targets=test.targets[chosen])
    inputs = np.concatenate([found.train.inputs, test.inputs])
    inputs = pack(inputs if config.data.size is None else resize(inputs, config.data.size))
    labels = np.concatenate([found.train.targets, test.targets])
    classes = len(found.class_names)
    if config.learner in LINEAR:
        inputs, targets = inputs.reshape(len(inputs), -1), _signs(labels, classes)
    else:
        targets = np.eye(classes, dtype=np.float32)[labels]
    return Data(ExamplePool(inputs, targets), len(found.train.targets))


def _data_key(config: ml_collections.ConfigDict) -> str:
    return json.dumps([config.data.to_dict(), config.learner in LINEAR], sort_keys=True)


def load(points: list[Point], data_dir: Path | None) -> dict[str, Data]:
    """Reads every data set that the points need once."""
    data: dict[str, Data] = {}
    for point in points:
        key = _data_key(point.config)
        if key not in data:
            data[key] = make_data(point.config, data_dir)
        if point.config.m > data[key].num_train:
            raise InputError(
                f"config.m is {point.config.m}; accepted: at most the training pool's "
                f"{data[key].num_train}"
            )
    return data


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


def _train(
    group: list[Point], data: Data, directory: Path, progress: Callable[[float], None]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Trains a group from its last checkpoint.

    Returns:
        Measures [stops, measures, pairs], and accuracies [pairs with a path, alphas] by split.
    """
    config, run = group[0].config, _Training(group, data)
    table = np.full((len(config.stops), len(MEASURES), len(group)), np.nan)
    chosen = _with_paths(group)
    shape = (len(chosen), config.connectivity.num_alphas)
    names = ("train_accuracy", "test_accuracy") if chosen else ()
    paths = {name: np.full(shape, np.nan, np.float32) for name in names}
    steps = [0, *_boundaries(config)]

    def advance(models: Tree, segment: int) -> Tree:
        before, step = steps[segment : segment + 2]
        models = run.advance(models, before, step - before)
        if step in config.stops:
            row = run.measure(models)
            table[config.stops.index(step)] = [row[name] for name in MEASURES]
        if step == report_step(config) and chosen:
            paths.update(run.connect(models))
        return models

    run_segments(
        run.start,
        (table, paths),
        steps[1:],
        advance,
        kept=Checkpoints(directory),
        layout=run.layout,
        progress=lambda step: progress(step / steps[-1]),
    )
    return table, paths


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
    own = data[_data_key(config)]
    if config.question == "influence":
        return [run_influence(point.config, own.pool, own.num_train) for point in group]
    table, paths = _train(group, own, directory, progress)
    own_path = {i: {n: v[k] for n, v in paths.items()} for k, i in enumerate(_with_paths(group))}
    return [
        _outcome(point.config, table[:, :, i], own_path.get(i, {})) for i, point in enumerate(group)
    ]


EXPERIMENT = Experiment(load=load, groups=groups, run=run, report=make_report)
