"""The coordinate check: change of activations in a few steps, at growing width.

Yang et al., Tensor Programs V (arXiv 2203.03466), appendix D.1: in muP as much at any width. The
trained function is f - f_0: the outputs at the start fall with the width in muP, and narrow
networks would have more to undo.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array

from lsa_jax import training
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.coordinate_check.report import make_report
from lsa_jax.experiments.lazy_rich.digits import TRAIN, DigitsTask, load
from lsa_jax.sweep.experiment import Experiment, Outcome, with_course
from lsa_jax.sweep.points import Point
from lsa_jax.training.coordinates import take_steps
from lsa_jax.training.course import Course, course_of


def rate_of(config: ml_collections.ConfigDict) -> float:
    """Returns a point's learning rate, independent of its width."""
    rate = config.rates[config.optimizer]
    scaled = config.parameterization == "ntk" and config.optimizer == "sgd"
    return rate * config.ntk_factor if scaled else rate


class Check(NamedTuple):
    """The change of each layer at a point, between these two parameters."""

    change: dict[str, Array]
    start: Any
    params: Any


def make_check(
    config: ml_collections.ConfigDict, task: DigitsTask
) -> Callable[[Array, Array], Check]:
    """Returns the compiled function of a run key and a data key."""
    model, shape = digits.build(config), digits.input_shape(config, task)
    factors = model.rate_factors and model.rate_factors(shape, config.optimizer)
    optimizer = training.make_optimizer(config.optimizer, rate_of(config), rate_factors=factors)
    count = len(task.train.targets)

    def examples(key: Array, step: Array) -> Dataset:
        index = (step * config.batch_size + jnp.arange(config.batch_size)) % count
        return digits.compose(config, TRAIN, task.train, key, index)

    def loss(params: dict, start: dict, batch: Dataset) -> Array:
        outputs = model.apply(params, batch.inputs) - model.apply(start, batch.inputs)
        return jnp.mean(training.softmax_cross_entropy(outputs, batch.targets))

    @jax.jit
    def check(key: Array, data_key: Array) -> Check:
        start = model.init(key, shape)

        def loss_at(params: dict, number: Array) -> Array:
            return loss(params, start, examples(data_key, number))

        numbers, state = jnp.arange(config.steps), optimizer.init(start)
        params, _, _ = take_steps(start, state, loss_at, optimizer, numbers)
        first = examples(data_key, jnp.int32(0)).inputs
        change = training.measures.activation_change(model.activations, start, params, first)
        return Check(change, start, params)

    return check


def _course(group: list[Point], task: DigitsTask, checks: list[Check]) -> Course | None:
    """Returns the measures at the start and after the last step; None if there are none."""
    config = group[0].config
    start, params = (
        jax.tree.map(lambda *leaves: np.stack(leaves), *(getattr(one, name) for one in checks))
        for name in ("start", "params")
    )

    def fetch(replica: int, index: Array) -> Dataset:
        own = group[replica].config
        return digits.compose(own, TRAIN, task.train, digits.data_key(own), index)

    course = course_of(
        training.Measuring(config.measures, config.measured_examples),
        digits.build(config).apply,
        start,
        fetch,
        len(task.train.targets),
        [0, config.steps],
        config.steps * config.batch_size,
    )
    if course is not None:
        course.take(0, start)
        course.take(config.steps, params)
    return course


def run(
    group: list[Point],
    data: dict[str, DigitsTask],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Takes a few steps at every point of a group, one after the other."""
    del directory  # a few steps are taken again
    task, found = digits.task_of(group[0], data), []
    check = make_check(group[0].config, task)
    for done, point in enumerate(group, start=1):
        found.append(check(digits.run_key(point.config), digits.data_key(point.config)))
        progress(done / len(group))
    course, outcomes = _course(group, task, found), []
    for replica, one in enumerate(found):
        outcome = Outcome({f"change/{k}": float(v) for k, v in one.change.items()}, [])
        if not np.isfinite(list(outcome.metrics.values())).all():
            outcome = Outcome({}, [], "failed", "a change of activations is not finite")
        rows = course.rows_of(replica) if course else []
        outcomes.append(with_course(outcome, rows, course and course.cost([], 1)))
    return outcomes


EXPERIMENT = Experiment(load=load, run=run, report=make_report, varying=("seed",))
