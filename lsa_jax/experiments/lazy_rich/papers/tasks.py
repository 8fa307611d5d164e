"""The papers' data, each with the paper's network and a kernel at large width.

Networks are the papers' own, but that table 1's has ReLUs: kernels of its kind are at hand at
infinite width then. The wide kernel is the network's own at infinite width; that of the sparse
signal is of many random filters, where the network has one.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from lsa_jax import models, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning import settings as pattern_settings
from lsa_jax.experiments.feature_learning.learning.tasks import make_task as draw_patterns
from lsa_jax.experiments.lazy_rich.streams import Papers
from lsa_jax.experiments.lsa.noise_curves import settings as noise_settings
from lsa_jax.experiments.lsa.noise_curves import tasks as noise_tasks
from lsa_jax.experiments.lsa.patch_cnn import patch_cnn
from lsa_jax.experiments.lsa.sparse_signal import noise_std, sample, sparse_signal
from lsa_jax.experiments.resnet.hierarchical import settings as hierarchical_settings
from lsa_jax.experiments.resnet.hierarchical.tasks import make_network
from lsa_jax.experiments.resnet.hierarchical.tasks import make_task as draw_hierarchy
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages
from lsa_jax.models.model import Model
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.course import NOTHING

_BATCH = 50


class WideKernel(NamedTuple):
    """A kernel at large width, as a recursive feature machine takes it.

    Attributes:
        of_transform: `T -> kernel` of inputs whose patches, or rows, are multiplied by T.
        size: the side of T.
    """

    of_transform: Callable[[np.ndarray], Callable[..., Array]]
    size: int


class PaperTask(NamedTuple):
    """One paper's data, and who learns from it.

    Attributes:
        train: inputs, and targets [n] signs, [n, c] one-hot or [n, c] numbers.
        test: likewise.
        is_regression: whether targets are numbers.
        network: the paper's.
        wide: the kernel at large width.
        loss: `(outputs, targets) -> [n]`, that the network is trained by.
        optimizer: likewise; a function of the steps in all.
        epochs: passes.
    """

    train: Dataset
    test: Dataset
    is_regression: bool
    network: Model
    wide: WideKernel
    loss: Callable
    optimizer: Callable[[int], optax.GradientTransformation]
    epochs: int


def _stream(config: ml_collections.ConfigDict, place: int) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.key(config.seed), place)


def _of_layers(model: Model, input_shape: tuple[int, ...]) -> WideKernel:
    return WideKernel(model.kernel.transformed, model.kernel.transform_size(input_shape))


def _adam(rate: float, steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(rate, steps))


# --- the sparse signal --------------------------------------------------------------------------


def threshold_filters(filters: int, bias_std: float = 0.5) -> Model:
    """The one-filter network of the theory with many filters, thresholds and a readout at random.

    f(X) = m^(-1/2) sum_j a_j sum_i (ReLU(<w_j, X_i> + b_j) - ReLU(b_j - <w_j, X_i>)), an odd
    function of X. At the start a_j and the entries of w_j sqrt(d) are N(0, 1), b_j is
    N(0, bias_std^2).
    """

    def init(key: Key[Array, ""], input_shape: tuple[int, ...]) -> dict[str, Array]:
        keys, d = jax.random.split(key, 3), input_shape[-1]
        return {
            "w": jax.random.normal(keys[0], (d, filters)) / math.sqrt(d),
            "b": bias_std * jax.random.normal(keys[1], (filters,)),
            "a": jax.random.normal(keys[2], (filters,)),
        }

    def apply(params: dict[str, Array], inputs: Float[Array, "n p d"]) -> Float[Array, "n 1"]:
        z = jnp.tensordot(inputs, params["w"], axes=1)
        b = jnp.broadcast_to(params["b"], z.shape)
        summed = jnp.sum(jax.nn.relu(z + b) - jax.nn.relu(b - z), axis=1)
        return (summed @ params["a"])[:, None] / math.sqrt(filters)

    return Model(init, apply, None)


def _sparse(config: ml_collections.ConfigDict, d: int) -> PaperTask:
    sparse = config.sparse
    law = sparse_signal(sparse.k, d, noise_std(sparse.k, 1.0))
    train, test = (
        Dataset(*map(np.asarray, sample(_stream(config, place), count, law)))
        for place, count in ((Papers.TRAIN, sparse.num_train), (Papers.TEST, sparse.num_test))
    )
    model = threshold_filters(sparse.filters)
    params = model.init(_stream(config, Papers.FILTERS), train.inputs.shape[1:])

    def of_transform(transform: np.ndarray) -> StagedKernel:
        seen = jnp.asarray(transform, jnp.float32)

        def of_one(x: Float[Array, "p d"]) -> Array:
            slope = jax.grad(lambda own: model.apply(own, x[None] @ seen)[0, 0])(params)
            return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(slope)])

        def derivatives(x: Float[Array | np.ndarray, "n p d"]) -> Float[Array, "n parameters"]:
            return jax.vmap(of_one)(jnp.asarray(x))

        @jax.default_matmul_precision("highest")
        def between(one: Array, other: Array) -> Float[Array, "n1 n2"]:
            return one @ other.T

        # Derivatives cost far more than their products: once for each example.
        return StagedKernel(
            lambda x1, x2: between(derivatives(x1), derivatives(x2)),
            lambda example: Stages(derivatives, between),
        )

    def optimizer(steps: int) -> optax.GradientTransformation:
        """Once the threshold outruns the filter, the signal does not pass and is not learned."""
        course = {"epochs": sparse.epochs, "steps_per_epoch": steps // sparse.epochs}
        warmups = {"w": 0.0, "b": sparse.threshold_warmup_epochs}
        rules = {
            name: optax.adam(
                training.make_schedule("cosine", 0.005, **course, warmup_epochs=epochs)
            )
            for name, epochs in warmups.items()
        }
        return optax.multi_transform(rules, {name: name for name in rules})

    return PaperTask(
        train,
        test,
        is_regression=False,
        network=patch_cnn(init_scale=sparse.init_scale),
        wide=WideKernel(of_transform, d),
        loss=training.logistic,
        optimizer=optimizer,
        epochs=sparse.epochs,
    )


# --- the others ---------------------------------------------------------------------------------


def noise_config(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns figure 6 as noise curves have it, at the size of this sweep."""
    mnist = config.mnist
    fields = {
        "seed": config.seed,
        "noise": mnist.noise,
        "data.dataset": "mnist",
        "data.image_size": 28,
        "data.background_size": 42,
        "data.placement": "random_corner",
        "data.num_train": mnist.num_train,
        "data.num_test": mnist.num_test,
    }
    return set_fields(noise_settings.default_config(), fields)


def _noise_point(config: ml_collections.ConfigDict) -> Point:
    return Point("figure6", {}, noise_config(config))


def load(points: list[Point], data_dir: Path | None) -> Any:
    """Reads the images of figure 6, if a point needs them; all else is drawn."""
    needed = [_noise_point(point.config) for point in points if point.config.task == "figure6"]
    return noise_tasks.load(needed, data_dir, section="mnist")


def _figure6(config: ml_collections.ConfigDict, data: Any) -> PaperTask:
    point = _noise_point(config)
    found = noise_tasks.task_of(point, data)
    train, test = (
        noise_tasks.compose(
            point.config,
            which,
            split,
            noise_tasks.replica_of(point),
            jnp.arange(len(split.targets)),
            jnp.int32(0),
        )
        for which, split in ((noise_tasks.TRAIN, found.train), (noise_tasks.TEST, found.test))
    )
    channels = point.config.model.channels
    shape = train.inputs.shape[1:]
    epochs, rate = config.mnist.epochs, 0.1

    def optimizer(steps: int) -> optax.GradientTransformation:
        course = {"epochs": epochs, "steps_per_epoch": steps // epochs, "warmup_epochs": 5.0}
        return optax.sgd(training.make_schedule("cosine", rate, **course), momentum=0.9)

    return PaperTask(
        Dataset(*map(np.asarray, train)),
        Dataset(*map(np.asarray, test)),
        is_regression=False,
        network=models.cnn(channels=channels, parameterization="standard"),
        wide=_of_layers(models.cnn(channels=channels), shape),
        loss=training.softmax_cross_entropy,
        optimizer=optimizer,
        epochs=epochs,
    )


def _table1(config: ml_collections.ConfigDict) -> PaperTask:
    patterns = config.patterns
    fields = {
        "seed": config.seed,
        "data.num_train": patterns.num_train,
        "data.num_test": patterns.num_test,
    }
    drawn = draw_patterns(set_fields(pattern_settings.default_config(), fields))
    scale = math.sqrt(drawn.train.inputs.shape[1])  # entries of variance 1, as layers expect them
    train, test = (
        Dataset(scale * np.asarray(part.inputs), np.asarray(part.targets))
        for part in (drawn.train, drawn.test)
    )
    network = models.mlp(widths=(patterns.width,), num_classes=1, b_std=0.5)
    return PaperTask(
        train,
        test,
        is_regression=False,
        network=network,
        wide=_of_layers(network, train.inputs.shape[1:]),
        loss=training.logistic,
        optimizer=functools.partial(_adam, 0.01),
        epochs=patterns.epochs,
    )


def _hierarchical(config: ml_collections.ConfigDict) -> PaperTask:
    own = config.hierarchical
    fields = {
        "seed": config.seed,
        "num_train": own.num_train,
        "num_test": own.num_test,
        "width": own.width,
    }
    theirs = set_fields(hierarchical_settings.default_config(), fields)
    drawn, network = draw_hierarchy(theirs), make_network(theirs)

    def of_transform(transform: np.ndarray) -> Callable[..., Array]:
        seen = jnp.asarray(transform, jnp.float32)
        return lambda x1, x2=None: network.kernel(x1 @ seen, (x1 if x2 is None else x2) @ seen)

    def optimizer(steps: int) -> optax.GradientTransformation:
        """The rate and the weight decay that figure 2(a)'s search takes at this size."""
        rate = optax.piecewise_constant_schedule(0.1, {steps // 2: 0.1})
        return optax.chain(optax.add_decayed_weights(0.005), optax.sgd(rate, momentum=0.9))

    return PaperTask(
        Dataset(*map(np.asarray, drawn.train)),
        Dataset(*map(np.asarray, drawn.test)),
        is_regression=True,
        network=network,
        wide=WideKernel(of_transform, drawn.train.inputs.shape[1]),
        loss=training.squared_error,
        optimizer=optimizer,
        epochs=own.epochs,
    )


def make_task(config: ml_collections.ConfigDict, data: Any) -> PaperTask:
    """Draws a point's data; who learns from it is the same for all learners of a seed."""
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
    key: Key[Array, ""],
    task: PaperTask,
    directory: Path,
    progress: Callable[[float], None],
    measuring: training.Measuring = NOTHING,
) -> tuple[Any, training.History]:
    """Trains a task's network, from its last checkpoint if there is one, and measures it."""
    return training.train(
        key,
        task.network,
        task.train,
        task.loss,
        task.optimizer(steps_of(task)),
        epochs=task.epochs,
        batch_size=min(_BATCH, len(task.train.targets)),
        evaluation=training.Evaluation(
            task.test, {} if task.is_regression else None, task.epochs, measuring=measuring
        ),
        checkpoints=training.Checkpoints(directory, max(1, task.epochs // 4)),
        progress=progress,
    )
