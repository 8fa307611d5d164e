"""The network of the experiments on digits, and the training of points as replicas."""

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
from lsa_jax.models.scaled import FROZEN, network_params
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Outcome, with_last_measures, with_test
from lsa_jax.sweep.points import Point
from lsa_jax.training.programs import init_key, split

NUM_CLASSES = 10


def build(config: ml_collections.ConfigDict) -> Model:
    """Returns a point's network; the same one for equal settings, so that programs are shared."""
    size = {"cnn": "channels", "mlp": "widths"}[config.model.name]
    own = {size: config.model[size], "parameterization": config.parameterization}
    return _build(config.model.name, config.width_factor, **own)


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
        model: the trained one.
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
    return training.make_optimizer(name, schedule, momentum=config.momentum, rate_factors=found)


def train(
    group: list[Point],
    task: DigitsTask,
    rates: list[float],
    directory: Path,
    progress: Callable[[float], None],
    *,
    output_scale: float | None,
    measures: tuple[str, ...],
) -> list[Outcome]:
    """Trains the network of a group at every point at once, and measures it.

    Args:
        group: points that differ in seed and rate alone.
        task: both splits.
        rates: one a point.
        directory: of checkpoints.
        progress: called with the fraction done.
        output_scale: alpha, which trains alpha (f - f_0), see `models.scaled`; infinite for the
            linearisation, None trains f.
        measures: of the network, see `training.measures`.

    Returns:
        An outcome a point; failed where a loss was not finite.
    """
    config = group[0].config
    model, frozen = (network := build(config)), ()
    measuring = training.Measuring(measures, config.measured_examples, network.apply)
    if output_scale is not None:
        model, frozen = models.scaled(network, output_scale), FROZEN
        own = functools.partial(network_params, output_scale=output_scale)
        measuring = measuring._replace(network=own)
    replicas = {
        "data_key": jnp.stack([tasks.data_key(point.config) for point in group]),
        "rate": jnp.asarray(rates, jnp.float32),
    }
    test = tasks.source(config, TEST, task.test)
    _, history = training.train(
        jnp.stack([run_key(point.config) for point in group]),
        model,
        tasks.source(config, TRAIN, task.train),
        training.softmax_cross_entropy,
        lambda replica: optimizer_of(config, model, task, replica["rate"], frozen),
        epochs=config.epochs,
        batch_size=config.batch_size,
        evaluation=training.Evaluation(test, None, config.epochs, measuring=measuring),
        replicas=replicas,
        frozen=frozen,
        checkpoints=training.Checkpoints(directory, max(1, config.epochs // 4)),
        progress=progress,
    )
    return with_test([outcome_of(history, replica) for replica in range(len(group))], task.test)


def outcome_of(history: training.History, replica: int) -> Outcome:
    """Returns the course of one replica with its losses, accuracies and measures at the end."""
    rows = [
        {name: v[replica].item() if np.ndim(v) else v for name, v in row.items()}
        for row in history.rows
    ]
    if replica in history.failures:
        return Outcome({}, rows, "failed", history.failures[replica])
    metrics = {n: value for n, value in rows[-1].items() if n.endswith(("_loss", "_accuracy"))}
    kept = None if history.outcomes is None else Outcomes(history.outcomes[replica])
    return with_last_measures(Outcome(metrics, rows, outcomes=kept), history.measured)
