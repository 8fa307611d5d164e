"""The coordinate check: how much activations change in a few steps, at growing width.

Yang et al., Tensor Programs V (arXiv 2203.03466), appendix D.1: in muP as much at any width. What
is trained is f - f_0, as everywhere in this room: the outputs at the start fall with the width in
muP, and narrow networks would differ by what they have to undo.
"""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_collections
import optax
from jaxtyping import Array

from lsa_jax import training
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lazy_rich import networks, tasks
from lsa_jax.experiments.lazy_rich.coordinate_check.report import make_report
from lsa_jax.experiments.lazy_rich.tasks import TRAIN, DigitsTask, load
from lsa_jax.sweep.experiment import Experiment, Outcome
from lsa_jax.sweep.points import Point, group_points


def groups(points: list[Point]) -> list[list[Point]]:
    """Puts points together that differ in the seed alone."""
    return group_points(points, lambda config: ("seed",))


def rate_of(config: ml_collections.ConfigDict) -> float:
    """Returns a point's learning rate: of its width it does not know."""
    rate = config.rates[config.optimizer]
    scaled = config.parameterization == "ntk" and config.optimizer == "sgd"
    return rate * config.ntk_factor if scaled else rate


def _changes(config: ml_collections.ConfigDict, task: DigitsTask) -> Callable:
    """Returns the compiled `(run key, data key) -> change of each layer`."""
    model, shape = networks.build(config), networks.input_shape(config, task)
    factors = model.rate_factors and model.rate_factors(shape, config.optimizer)
    optimizer = training.make_optimizer(config.optimizer, rate_of(config), rate_factors=factors)
    count = len(task.train.targets)

    def examples(key: Array, step: Array) -> Dataset:
        index = (step * config.batch_size + jnp.arange(config.batch_size)) % count
        return tasks.compose(config, TRAIN, task.train, key, index)

    def loss(params: dict, start: dict, batch: Dataset) -> Array:
        outputs = model.apply(params, batch.inputs) - model.apply(start, batch.inputs)
        return jnp.mean(training.softmax_cross_entropy(outputs, batch.targets))

    @jax.jit
    def change(key: Array, data_key: Array) -> dict[str, Array]:
        start = model.init(key, shape)

        def step(carry: tuple, number: Array) -> tuple[tuple, None]:
            params, state = carry
            gradient = jax.grad(loss)(params, start, examples(data_key, number))
            updates, state = optimizer.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), None

        (params, _), _ = jax.lax.scan(
            step, (start, optimizer.init(start)), jnp.arange(config.steps)
        )
        first = examples(data_key, jnp.int32(0)).inputs
        return training.measures.activation_change(model.activations, start, params, first)

    return change


def run(
    group: list[Point],
    data: dict[str, DigitsTask],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Takes a few steps at every point of a group, one after the other."""
    del directory  # a few steps are taken again
    change, outcomes = _changes(group[0].config, tasks.task_of(group[0], data)), []
    for done, point in enumerate(group, start=1):
        found = change(networks.run_key(point.config), tasks.data_key(point.config))
        outcomes.append(Outcome({f"change/{k}": float(v) for k, v in found.items()}, []))
        progress(done / len(group))
    return outcomes


EXPERIMENT = Experiment(load, groups, run, make_report)
