"""The network of this room's experiments on digits, and how points that differ in numbers train."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax

from lsa_jax import models, training
from lsa_jax.experiments.lazy_rich import tasks
from lsa_jax.experiments.lazy_rich.streams import Digits
from lsa_jax.experiments.lazy_rich.tasks import TEST, TRAIN, DigitsTask
from lsa_jax.models.model import Model
from lsa_jax.sweep.points import Point
from lsa_jax.training.programs import init_key, split

NUM_CLASSES = 10


def build(config: ml_collections.ConfigDict) -> Model:
    """Returns a point's network; the same one for equal settings, so that programs are shared."""
    name = config.model.name
    size = {"cnn": "channels", "mlp": "widths"}[name]
    own = {size: config.model[size], "parameterization": config.parameterization}
    return _build(name, config.width_factor, **own)


@functools.cache
def _build(name: str, width_factor: int, **settings: Any) -> Model:
    return models.MODELS[name](width_factor, NUM_CLASSES, **settings)


def run_key(config: ml_collections.ConfigDict) -> jax.Array:
    """Returns the key of a point's training."""
    return jax.random.fold_in(jax.random.key(config.seed), Digits.RUN)


def initial(config: ml_collections.ConfigDict, model: Model, task: DigitsTask) -> Any:
    """Returns the parameters that a point's training starts from."""
    return model.init(init_key(run_key(config)), input_shape(config, task))


def input_shape(config: ml_collections.ConfigDict, task: DigitsTask) -> tuple[int, ...]:
    """Returns the shape of one composed image."""
    side = config.data.background_size
    return (side, side, task.train.inputs.shape[-1])


def optimizer_of(
    config: ml_collections.ConfigDict,
    model: Model,
    task: DigitsTask,
    rate: Any,
    frozen: tuple[str, ...] = (),
) -> optax.GradientTransformation:
    """Returns the optimiser of a point, with the factors of its parameterisation.

    Args:
        config: the point's.
        model: what is trained.
        task: its data.
        rate: at the end of the warm-up; may be traced.
        frozen: parts of the model's parameters that are not trained.
    """
    schedule = training.make_schedule(
        config.schedule,
        rate,
        epochs=config.epochs,
        steps_per_epoch=-(-len(task.train.targets) // config.batch_size),
        warmup_epochs=config.warmup_epochs,
    )
    name, factors = config.optimizer, model.rate_factors
    found = factors and split(factors(input_shape(config, task), name), frozen)[0]
    return training.make_optimizer(
        name,
        schedule,
        momentum=config.momentum,
        rate_factors=found,
    )


def train(
    group: list[Point],
    task: DigitsTask,
    model: Model,
    rates: list[float],
    loss: Callable,
    directory: Path,
    progress: Callable[[float], None],
    frozen: tuple[str, ...] = (),
    measuring: training.Measuring | None = None,
) -> tuple[Any, training.History]:
    """Trains a model at every point of a group at once.

    Args:
        group: points that differ in seed and rate alone.
        task: both splits.
        model: of all.
        rates: one a point.
        loss: `(outputs, targets) -> [n]`.
        directory: where checkpoints go.
        progress: called with the fraction done.
        frozen: parts of the model's parameters that are not trained.
        measuring: as `training.train` takes it; None measures nothing.

    Returns:
        The trained parameters and the course of training, with an axis of points.
    """
    config = group[0].config
    replicas = {
        "data_key": jnp.stack([tasks.data_key(point.config) for point in group]),
        "rate": jnp.asarray(rates, jnp.float32),
    }
    test = tasks.source(config, TEST, task.test)
    return training.train(
        jnp.stack([run_key(point.config) for point in group]),
        model,
        tasks.source(config, TRAIN, task.train),
        loss,
        lambda replica: optimizer_of(config, model, task, replica["rate"], frozen),
        epochs=config.epochs,
        batch_size=config.batch_size,
        evaluation=training.Evaluation(
            test, None, config.epochs, measuring=measuring or training.Measuring()
        ),
        replicas=replicas,
        frozen=frozen,
        checkpoints=training.Checkpoints(directory, max(1, config.epochs // 4)),
        progress=progress,
    )


def rows_of(history: training.History, replica: int) -> list[dict[str, Any]]:
    """Returns the course of one replica, a row an epoch at which something was measured."""
    return [
        {name: v[replica].item() if np.ndim(v) else v for name, v in row.items()}
        for row in history.rows
    ]


def at_end(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Returns the losses and accuracies at the end of a course."""
    return {n: value for n, value in rows[-1].items() if n.endswith(("_loss", "_accuracy"))}
