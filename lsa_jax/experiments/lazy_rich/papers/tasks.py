"""The papers' data, each with the paper's network and a kernel at large width.

Networks are the papers' own. The wide kernel is the network's own at infinite width. For the sparse
signal, whose network has one filter, it is that of many random filters; for hidden patterns that of
ReLUs, as truncated ones have none in closed form.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from lsa_jax import kernels, models, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning import learners
from lsa_jax.experiments.feature_learning.learning import settings as pattern_settings
from lsa_jax.experiments.feature_learning.learning.tasks import make_task as draw_patterns
from lsa_jax.experiments.lsa.noise_curves import settings as noise_settings
from lsa_jax.experiments.lsa.noise_curves import tasks as noise_tasks
from lsa_jax.experiments.lsa.sparse_signal import noise_std, patch_cnn, sample, sparse_signal
from lsa_jax.experiments.resnet.hierarchical import settings as hierarchical_settings
from lsa_jax.experiments.resnet.hierarchical.tasks import make_network
from lsa_jax.experiments.resnet.hierarchical.tasks import make_task as draw_hierarchy
from lsa_jax.models.model import Model
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields

_BATCH = 50
# Streams of a seed's key: examples, filters, the network's training, examples for gradients.
TRAIN, TEST, FILTERS = range(3)
RUN, POINTS = 10, 12


class WideKernel(NamedTuple):
    """A kernel at large width: `T -> kernel` of inputs, patches or rows times T, and T's side."""

    of_transform: Callable[[np.ndarray], Callable[..., Array]]
    size: int


class PaperTask(NamedTuple):
    """One paper's data, network and wide kernel; targets are [n] signs or [n, c].

    `first_steps` returns the parameters after steps that the paper's training begins with, if any.
    """

    train: Dataset
    test: Dataset
    network: Model
    wide: WideKernel
    loss: Callable
    optimizer: Callable[[int], optax.GradientTransformation]
    epochs: int
    is_regression: bool = False
    first_steps: Callable[[], Any] | None = None


def stream(config: Config, place: int) -> Key[Array, ""]:
    """Returns one of the streams of a point's seed."""
    return jax.random.fold_in(jax.random.key(config.seed), place)


def _on_host(*parts: Any) -> Iterator[Dataset]:
    return (Dataset(*map(np.asarray, part)) for part in parts)


def _of_layers(model: Model, input_shape: tuple[int, ...]) -> WideKernel:
    return WideKernel(model.kernel.transformed, model.kernel.transform_size(input_shape))


# --- the sparse signal --------------------------------------------------------------------------


def threshold_filters(filters: int) -> Model:
    """Returns the theory's network with m random filters, thresholds and a readout.

    f(X) = m^(-1/2) sum_j a_j sum_i (ReLU(<w_j, X_i> + b_j) - ReLU(b_j - <w_j, X_i>)). At the start
    a_j and the entries of w_j sqrt(d) are N(0, 1), b_j is N(0, 1/4).
    """

    def init(key: Key[Array, ""], input_shape: tuple[int, ...]) -> dict[str, Array]:
        keys, d = jax.random.split(key, 3), input_shape[-1]
        return {
            "w": jax.random.normal(keys[0], (d, filters)) / math.sqrt(d),
            "b": 0.5 * jax.random.normal(keys[1], (filters,)),
            "a": jax.random.normal(keys[2], (filters,)),
        }

    def apply(params: dict[str, Array], inputs: Float[Array, "n p d"]) -> Float[Array, "n 1"]:
        z = jnp.tensordot(inputs, params["w"], axes=1)
        b = jnp.broadcast_to(params["b"], z.shape)
        summed = jnp.sum(jax.nn.relu(z + b) - jax.nn.relu(b - z), axis=1)
        return (summed @ params["a"])[:, None] / math.sqrt(filters)

    return Model(init, apply, None)


def _sparse(config: Config, d: int) -> PaperTask:
    sparse = config.sparse
    law = sparse_signal(sparse.k, d, noise_std(sparse.k, 1.0))
    train, test = _on_host(
        sample(stream(config, TRAIN), sparse.num_train, law),
        sample(stream(config, TEST), sparse.num_test, law),
    )
    model = threshold_filters(sparse.filters)
    params = model.init(stream(config, FILTERS), train.inputs.shape[1:])

    def of_transform(transform: np.ndarray) -> Callable[..., Array]:
        seen = jnp.asarray(transform, jnp.float32)
        return kernels.finite_kernel(lambda own, x: model.apply(own, x @ seen), params)

    def optimizer(steps: int) -> optax.GradientTransformation:
        # Once the threshold outruns the filter, the signal does not pass and is not learned.
        course = {"epochs": sparse.epochs, "steps_per_epoch": steps // sparse.epochs}
        warmups = {"w": 0.0, "b": sparse.threshold_warmup_epochs}
        rules = {
            name: optax.adam(training.make_schedule("cosine", 0.005, **course, warmup_epochs=late))
            for name, late in warmups.items()
        }
        return optax.multi_transform(rules, {name: name for name in rules})

    return PaperTask(
        train,
        test,
        network=patch_cnn(init_scale=sparse.init_scale),
        wide=WideKernel(of_transform, d),
        loss=training.logistic,
        optimizer=optimizer,
        epochs=sparse.epochs,
    )


# --- the others ---------------------------------------------------------------------------------


def _noise_point(config: Config) -> Point:
    """Returns figure 6 as a point of noise curves, at the size of this sweep."""
    mnist = config.mnist
    fields = {"seed": config.seed, "noise": mnist.noise, "data.dataset": "mnist"}
    fields |= {"data.image_size": 28, "data.background_size": 42}
    fields |= {"data.placement": "random_corner"}
    fields |= {"data.num_train": mnist.num_train, "data.num_test": mnist.num_test}
    return Point("figure6", {}, set_fields(noise_settings.SETTINGS.default_config(), fields))


def load(points: list[Point], data_dir: Path | None) -> Any:
    """Reads the images of figure 6, if a point needs them; all else is drawn."""
    needed = [_noise_point(point.config) for point in points if point.config.task == "figure6"]
    return noise_tasks.load(needed, data_dir, section="mnist")


def _figure6(config: Config, data: Any) -> PaperTask:
    point = _noise_point(config)
    found = noise_tasks.task_of(point, data)
    train, test = _on_host(
        *(
            noise_tasks.composed(point, found, which, np.arange(len(split.targets)))
            for which, split in enumerate(found)
        )
    )
    channels, epochs = point.config.model.channels, config.mnist.epochs

    def optimizer(steps: int) -> optax.GradientTransformation:
        course = {"epochs": epochs, "steps_per_epoch": steps // epochs, "warmup_epochs": 5.0}
        return optax.sgd(training.make_schedule("cosine", 0.1, **course), momentum=0.9)

    return PaperTask(
        train,
        test,
        network=models.cnn(channels=channels, parameterization="standard"),
        wide=_of_layers(models.cnn(channels=channels), train.inputs.shape[1:]),
        loss=training.softmax_cross_entropy,
        optimizer=optimizer,
        epochs=epochs,
    )


def _table1(config: Config) -> PaperTask:
    patterns = config.patterns
    sizes = {"data.num_train": patterns.num_train, "data.num_test": patterns.num_test}
    fields = {"seed": config.seed, "m": patterns.width, "batch_size": patterns.num_train, **sizes}
    theirs = set_fields(pattern_settings.SETTINGS.default_config(), fields)
    drawn = draw_patterns(theirs)
    replica = jax.tree.map(jnp.asarray, learners.make_replica(theirs, drawn))
    size = drawn.train.inputs.shape[1]
    wide = models.mlp(widths=(2 * patterns.width,), num_classes=1, b_std=0.5)

    def of_transform(transform: np.ndarray) -> Callable[..., Array]:
        return wide.kernel.transformed(math.sqrt(size) * transform)  # entries of variance 1

    def optimizer(steps: int) -> optax.GradientTransformation:
        return optax.sgd(theirs.rate, momentum=theirs.momentum)

    return PaperTask(
        *_on_host(drawn.train, drawn.test),
        network=Model(
            lambda key, shape: learners.initial_params(theirs, replica)[0],
            learners.network_of(theirs, replica).apply,
            None,
        ),
        wide=WideKernel(of_transform, size),
        loss=training.hinge,
        optimizer=optimizer,
        epochs=patterns.epochs,
        first_steps=lambda: jax.jit(partial(learners.first_stages, theirs))(replica)[-1][0],
    )


def _hierarchical(config: Config) -> PaperTask:
    own = config.hierarchical
    fields = {name: own[name] for name in ("num_train", "num_test", "width")}
    fields["seed"] = config.seed
    theirs = set_fields(hierarchical_settings.SETTINGS.default_config(), fields)
    drawn, network = draw_hierarchy(theirs), make_network(theirs)

    def of_transform(transform: np.ndarray) -> Callable[..., Array]:
        seen = jnp.asarray(transform, jnp.float32)
        return lambda x1, x2=None: network.kernel(x1 @ seen, (x1 if x2 is None else x2) @ seen)

    def optimizer(steps: int) -> optax.GradientTransformation:
        # Rate and weight decay of figure 2 (a)'s search at this size.
        rate = optax.piecewise_constant_schedule(0.1, {steps // 2: 0.1})
        return optax.chain(optax.add_decayed_weights(0.005), optax.sgd(rate, momentum=0.9))

    return PaperTask(
        *_on_host(drawn.train, drawn.test),
        is_regression=True,
        network=network,
        wide=WideKernel(of_transform, drawn.train.inputs.shape[1]),
        loss=training.squared_error,
        optimizer=optimizer,
        epochs=own.epochs,
    )


def make_task(config: Config, data: Any) -> PaperTask:
    """Draws a point's data, the same for all learners of a seed."""
    k = config.sparse.k
    makers = {
        "figure3": lambda: _sparse(config, config.sparse.d),
        "theorem2": lambda: _sparse(config, max(2, round(k / math.log(k) ** 2))),
        "figure6": lambda: _figure6(config, data),
        "table1": lambda: _table1(config),
        "hierarchical": lambda: _hierarchical(config),
    }
    return makers[config.task]()


def steps_of(task: PaperTask) -> int:
    """Returns the updates of a network's training in all."""
    return task.epochs * -(-len(task.train.targets) // _BATCH)


def train_network(
    key: Key[Array, ""], task: PaperTask, directory: Path, measuring: training.Measuring
) -> tuple[Any, training.History]:
    """Trains and measures a task's network, from its last checkpoint if there is one."""
    network = task.network
    if task.first_steps is not None:
        params = task.first_steps()
        network = network._replace(init=lambda key, shape: params)
    params, history = training.train(
        key,
        network,
        task.train,
        task.loss,
        task.optimizer(steps_of(task)),
        epochs=task.epochs,
        batch_size=min(_BATCH, len(task.train.targets)),
        evaluation=training.Evaluation(
            task.test, {} if task.is_regression else None, task.epochs, measuring=measuring
        ),
        checkpoints=training.Checkpoints(directory, max(1, task.epochs // 4)),
    )
    return jax.tree.map(jnp.asarray, params), history
