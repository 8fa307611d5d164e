"""Digits in a corner of a noisy background, their network and its training."""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from lsa_jax import models, training
from lsa_jax.data import backgrounds, images, tasks
from lsa_jax.data.backgrounds import Composition
from lsa_jax.data.dataset import Dataset
from lsa_jax.data.resizing import resize
from lsa_jax.models.model import Model
from lsa_jax.models.scaled import FROZEN, network_params
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Outcome, Progress, with_last_measures, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.programs import init_key, split

TRAIN, TEST = 0, 1
NUM_CLASSES = 10
# Streams of a seed's key: the network and its training, the data.
_RUN, _DATA = range(2)


class DigitsTask(NamedTuple):
    """Both splits without backgrounds: images [n, a, a, c] and one-hot targets."""

    train: Dataset
    test: Dataset


def _key(config: Config) -> str:
    return json.dumps(config.data.to_dict(), sort_keys=True)


def _read(config: Config, data_dir: Path | None) -> DigitsTask:
    data = config.data
    _place(config)  # refuses an image that does not fit, before training
    sizes = {"num_train": data.num_train, "num_test": data.num_test}
    view = tasks.task_view(images.load(data.dataset, data_dir), "all", **sizes)

    def prepared(dataset: Dataset, copies: int) -> Dataset:
        small = resize(dataset.inputs, data.image_size)
        return Dataset(jnp.tile(small, (copies, 1, 1, 1)), jnp.tile(dataset.targets, (copies, 1)))

    return DigitsTask(prepared(view.train, 1), prepared(view.test, data.test_copies))


def load(points: list[Point], data_dir: Path | None) -> dict[str, DigitsTask]:
    """Reads the images that the points need, once for each way of preparing them."""
    configs = {_key(point.config): point.config for point in points}
    return {key: _read(config, data_dir) for key, config in configs.items()}


def task_of(point: Point, data: dict[str, DigitsTask]) -> DigitsTask:
    """Returns the images of a point from those of `load`."""
    return data[_key(point.config)]


def data_key(config: Config) -> Array:
    """Returns the key that draws places and backgrounds of a point's seed."""
    return jax.random.fold_in(jax.random.key(config.seed), _DATA)


def _place(config: Config) -> Composition:
    data = config.data
    return Composition(data.image_size, data.background_size, "random_corner", "gaussian")


def compose(config: Config, which: int, part: Dataset, key: Array, index: Array) -> Dataset:
    """Places examples on their backgrounds: a function of (seed, split, example) alone."""
    own, images_of = jax.random.fold_in(key, which), part.inputs[index]
    noise = config.data.noise
    composed = backgrounds.compose(_place(config), own, images_of, index, 0, noise=noise)
    return Dataset(composed, part.targets[index])


def whole(config: Config, which: int, part: Dataset) -> Dataset:
    """Returns a point's whole split on its backgrounds."""
    return compose(config, which, part, data_key(config), jnp.arange(len(part.targets)))


def _fetch(
    config: Config, which: int, part: Dataset, replica: dict[str, Any], index: Array, epoch: Array
) -> Dataset:
    del epoch  # backgrounds stay as they are
    return compose(config, which, part, replica["data_key"], index)


def source(config: Config, which: int, part: Dataset) -> training.Source:
    """Returns a split as a source of batches; a replica has its `data_key`."""
    return training.Source(part, len(part.targets), functools.partial(_fetch, config, which))


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


def initial(config: Config, model: Model, task: DigitsTask) -> Any:
    """Returns the parameters that a point's training starts from."""
    return model.init(init_key(run_key(config)), input_shape(config, task))


def input_shape(config: Config, task: DigitsTask) -> tuple[int, ...]:
    """Returns the shape of one composed image."""
    side = config.data.background_size
    return (side, side, task.train.inputs.shape[-1])


def optimizer_of(
    config: Config, model: Model, task: DigitsTask, rate: Any, frozen: tuple[str, ...] = ()
) -> optax.GradientTransformation:
    """Returns the optimiser of a point, with the factors of its parameterisation.

    The rate, at the end of the warm-up, may be traced; frozen parameters are not trained.
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
    progress: Progress,
    *,
    output_scale: float | None,
    measures: tuple[str, ...],
) -> tuple[Any, list[Outcome]]:
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
        The network's trained parameters, with an axis of points, and the outcomes.
    """
    config = group[0].config
    model, frozen = (network := build(config)), ()
    measuring = training.Measuring(measures, config.measured_examples, network.apply)
    if output_scale is not None:
        model, frozen = models.scaled(network, output_scale), FROZEN
        own = functools.partial(network_params, output_scale=output_scale)
        measuring = measuring._replace(network=own)
    replicas = {
        "data_key": jnp.stack([data_key(point.config) for point in group]),
        "rate": jnp.asarray(rates, jnp.float32),
    }
    test = source(config, TEST, task.test)
    params, history = training.train(
        jnp.stack([run_key(point.config) for point in group]),
        model,
        source(config, TRAIN, task.train),
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
    outcomes = [outcome_of(history, replica) for replica in range(len(group))]
    return measuring.network(params), with_test(outcomes, task.test)


def outcome_of(history: training.History, replica: int) -> Outcome:
    """Returns one replica's course, with its last losses, accuracies and measures."""
    rows = [
        {name: v[replica].item() if np.ndim(v) else v for name, v in row.items()}
        for row in history.rows
    ]
    if replica in history.failures:
        return Outcome({}, rows, "failed", history.failures[replica])
    metrics = {n: value for n, value in rows[-1].items() if n.endswith(("_loss", "_accuracy"))}
    kept = None if history.outcomes is None else Outcomes(history.outcomes[replica])
    return with_last_measures(Outcome(metrics, rows, outcomes=kept), history.measured)
