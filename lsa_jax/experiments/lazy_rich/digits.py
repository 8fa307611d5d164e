"""Digits in a corner of a noisy background, their network and its training."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from lsa_jax import models, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lsa.noise_curves import tasks
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.experiments.lsa.noise_curves.tasks import TEST, TRAIN, ImageTask, Split, input_shape
from lsa_jax.models.model import Model
from lsa_jax.models.scaled import FROZEN, network_params
from lsa_jax.sweep.experiment import Config, Outcome, Point, Progress, outcome_of, with_test
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.programs import init_key, split

NUM_CLASSES = 10
_RUN = 0  # stream of a seed's key: the network and its training


def _on_backgrounds(config: Config) -> Point:
    """Returns a point's data as those of noise curves, which read and compose images."""
    own = {f"data.{name}": value for name, value in config.data.items() if name != "noise"}
    own |= {"data.placement": "random_corner", "noise": config.data.noise, "seed": config.seed}
    return Point("", {}, set_fields(SETTINGS.default_config(), own))


def load(points: list[Point], data_dir: Path | None) -> dict[str, ImageTask]:
    """Reads the images that the points need, once for each way of preparing them."""
    return tasks.load([_on_backgrounds(point.config) for point in points], data_dir)


def task_of(point: Point, data: dict[str, ImageTask]) -> ImageTask:
    """Returns the images of a point from those of `load`."""
    return jax.tree.map(jnp.asarray, tasks.task_of(_on_backgrounds(point.config), data))


def data_key(config: Config) -> Array:
    """Returns the key that draws places and backgrounds of a point's seed."""
    return tasks.replica_of(_on_backgrounds(config))["data_key"]


def compose(config: Config, which: int, split: Split, key: Array, index: Array) -> Dataset:
    """Places examples on their backgrounds: a function of (seed, split, example) alone."""
    replica = {"data_key": key, "noise": config.data.noise}
    own = _on_backgrounds(config).config
    return tasks.compose(own, which, split, replica, index, jnp.int32(0))


def whole(config: Config, which: int, split: Split) -> Dataset:
    """Returns a point's whole split on its backgrounds."""
    return compose(config, which, split, data_key(config), jnp.arange(len(split.targets)))


_SIZES = {"cnn": "channels", "mlp": "widths"}


def num_layers(config: Config) -> int:
    """Returns the number of a network's layers of weights."""
    return 1 + len(config.model[_SIZES[config.model.name]])


def build(config: Config) -> Model:
    """Returns a point's network; equal settings share one, and so its programs."""
    size = _SIZES[config.model.name]
    own = {size: config.model[size], "parameterization": config.parameterization}
    return _build(config.model.name, config.width_factor, **own)


@functools.cache
def _build(name: str, width_factor: int, **settings: Any) -> Model:
    return models.MODELS[name](width_factor, NUM_CLASSES, **settings)


def run_key(config: Config) -> jax.Array:
    """Returns the key of a point's training."""
    return jax.random.fold_in(jax.random.key(config.seed), _RUN)


def initial(config: Config, model: Model, task: ImageTask) -> Any:
    """Returns the parameters that a point's training starts from."""
    return model.init(init_key(run_key(config)), input_shape(config, task))


def optimizer_of(
    config: Config, model: Model, task: ImageTask, rate: Any, frozen: tuple[str, ...] = ()
) -> optax.GradientTransformation:
    """Returns the optimiser of a point; its rate, after the warm-up, may be traced."""
    schedule = training.make_schedule(
        config.schedule,
        rate,
        epochs=config.epochs,
        steps_per_epoch=-(-len(task.train.targets) // config.batch_size),
        warmup_epochs=config.warmup_epochs,
    )
    name, factors = config.optimizer, model.rate_factors
    found = factors and split(factors(input_shape(config, task), name), frozen)[0]
    return training.make_optimizer(name, schedule, momentum=config.momentum, rate_factors=found)


def train(
    group: list[Point],
    task: ImageTask,
    rates: list[float],
    directory: Path,
    progress: Progress,
    *,
    output_scale: float | None,
    measures: tuple[str, ...],
) -> tuple[Any, list[Outcome]]:
    """Trains the network at every point of a group at once, and measures it.

    Points differ in seed and rate alone. `output_scale` is alpha of `models.scaled`, infinite for
    the linearisation; None trains f. Returns the network's trained parameters, with an axis of
    points, and the outcomes.
    """
    config = group[0].config
    model, frozen = (network := build(config)), ()
    measuring = training.Measuring(measures, config.measured_examples, network.apply)
    if output_scale is not None:
        model, frozen = models.scaled(network, output_scale), FROZEN
        own = functools.partial(network_params, output_scale=output_scale)
        measuring = measuring._replace(network=own)
    points = [_on_backgrounds(point.config) for point in group]
    replicas = jax.tree.map(lambda *rows: jnp.stack(rows), *map(tasks.replica_of, points))
    source = functools.partial(tasks.source, points[0].config)
    params, history = training.train(
        jnp.stack([run_key(point.config) for point in group]),
        model,
        source(TRAIN, task.train),
        training.softmax_cross_entropy,
        lambda replica: optimizer_of(config, model, task, replica["rate"], frozen),
        epochs=config.epochs,
        batch_size=config.batch_size,
        evaluation=training.Evaluation(
            source(TEST, task.test), None, config.epochs, measuring=measuring
        ),
        replicas=replicas | {"rate": jnp.asarray(rates, jnp.float32)},
        frozen=frozen,
        checkpoints=training.Checkpoints(directory, max(1, config.epochs // 4)),
        progress=progress,
    )
    outcomes = [_with_batch_loss(outcome_of(history, replica)) for replica in range(len(group))]
    return measuring.network(params), with_test(outcomes, task.test)


def _with_batch_loss(found: Outcome) -> Outcome:
    """Returns an outcome with the loss of the last epoch's batches, unless it failed."""
    if found.status == "failed":
        return found
    return found._replace(metrics={"batch_loss": found.history[-1]["batch_loss"]} | found.metrics)
