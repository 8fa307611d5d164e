"""Examples and networks of the collection."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import sklearn.datasets
from flax import linen
from jaxtyping import Array, Float, Int, Shaped

from lsa_jax import models
from lsa_jax.data import ImageSet, task_view
from lsa_jax.experiments.lazy_rich.collection.settings import Task
from lsa_jax.models.any_library import as_model
from lsa_jax.models.model import Model

Pair = tuple[Shaped[np.ndarray, "n ..."], Shaped[np.ndarray, " n"]]

_MADE = 1500  # examples of made data
_TABLES = {
    "diabetes": sklearn.datasets.load_diabetes,
    "breast cancer": sklearn.datasets.load_breast_cancer,
    "wine": sklearn.datasets.load_wine,
}
_TOKENS, _LENGTH = 4, 12  # different tokens, and tokens a sequence


def examples(name: str, images: Mapping[str, ImageSet], source: str, num_images: int) -> Pair:
    """Returns inputs float32 [n, ...], or tokens, and targets [n]: class or real numbers.

    `images` are by source; of large sets a subset of `num_images` is taken, balanced over classes.
    """
    draw = np.random.default_rng(0)
    if source == "digits":
        parts = images[source].train, images[source].test
        x, y = (np.concatenate(both) for both in zip(*parts, strict=True))
        if name == "digits in noise":
            x = _in_noise(draw, x)
        return x, draw.permutation(y) if name == "digits, random labels" else y
    if source != "none":
        kind = "cifar2" if name == "CIFAR-10, animals or vehicles" else "all"
        few = min(num_images, len(images[source].train.targets))
        train = task_view(images[source], kind, num_train=few).train
        return np.asarray(train.inputs), np.asarray(train.targets).argmax(1)
    if name in _TABLES:
        x, y = _TABLES[name](return_X_y=True)
        return ((x - x.mean(0)) / x.std(0)).astype(np.float32), y
    if name.endswith("of tokens"):
        x = draw.integers(_TOKENS, size=(_MADE, _LENGTH), dtype=np.int32)
        counts = (x[:, :, None] == np.arange(_TOKENS)).sum(1)
        return x, x[:, 0] if name.startswith("first") else counts.argmax(1)
    if name == "product of signs":
        x = draw.choice([-1.0, 1.0], size=(_MADE, 80)).astype(np.float32)
        return x, (x[:, 0] * x[:, 1] > 0).astype(int)
    x = draw.normal(size=(_MADE, 20)).astype(np.float32)
    return x, draw.normal(size=_MADE) if name == "random targets" else _teacher(draw, x)


def _in_noise(
    draw: np.random.Generator, images: Float[np.ndarray, "n 8 8 1"]
) -> Float[np.ndarray, "n 16 16 1"]:
    """Returns digits at random places of frames of Gaussian noise with standard deviation 1."""
    frames = draw.normal(size=(len(images), 16, 16, 1)).astype(np.float32)
    for frame, image, (row, column) in zip(
        frames, images, draw.integers(9, size=(len(images), 2)), strict=True
    ):
        frame[row : row + 8, column : column + 8] = image
    return frames


def _teacher(draw: np.random.Generator, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Returns the outputs of three ReLUs with random directions and signs."""
    directions = draw.normal(size=(x.shape[1], 3)) / x.shape[1] ** 0.5
    return np.maximum(x @ directions, 0) @ np.array([1.0, -1.0, 1.0])


class ResNet(linen.Module):
    """Two residual blocks of convolutions with batch normalisation, of 16 and 32 channels."""

    outputs: int

    @linen.compact
    def __call__(self, x: Float[Array, "n h w c"], train: bool = False) -> Float[Array, "n k"]:
        """Returns the outputs; batch statistics in training, running ones otherwise."""

        def normal(x: Array) -> Array:
            return linen.BatchNorm(use_running_average=not train, momentum=0.9)(x)

        for channels in (16, 32):
            x = linen.Conv(channels, (3, 3), strides=2, use_bias=False)(x)
            inner = linen.relu(normal(x))
            inner = linen.relu(normal(linen.Conv(channels, (3, 3), use_bias=False)(inner)))
            x = x + linen.Conv(channels, (3, 3), use_bias=False)(inner)
        return linen.Dense(self.outputs)(linen.relu(normal(x)).mean((1, 2)))


class Transformer(linen.Module):
    """One block of attention and a layer of 64 units, on 32 numbers a token, then their mean."""

    outputs: int

    @linen.compact
    def __call__(self, tokens: Int[Array, "n t"]) -> Float[Array, "n k"]:
        """Returns the outputs."""
        places = self.param("places", linen.initializers.normal(0.2), (tokens.shape[1], 32))
        x = linen.Embed(_TOKENS, 32)(tokens) + places[None]
        x = x + linen.MultiHeadDotProductAttention(num_heads=4)(linen.LayerNorm()(x))
        x = x + linen.Dense(32)(linen.gelu(linen.Dense(64)(linen.LayerNorm()(x))))
        return linen.Dense(self.outputs)(x.mean(1))


def network(task: Task, outputs: int) -> Model:
    """Returns the network of a task; in muP it has twice the width of its base."""
    if task.network in ("ResNet", "Transformer"):
        model = as_model({"ResNet": ResNet, "Transformer": Transformer}[task.network](outputs))
    else:
        wider = 2 if task.parameterization == "mup" else 1
        make: Any = {"MLP": models.mlp, "CNN": models.cnn}[task.network]
        sizes = {"widths": (128 // wider,)} if task.network == "MLP" else {"channels": (16, 32)}
        model = make(wider, outputs, parameterization=task.parameterization, **sizes)
    return model if task.output_scale is None else models.scaled(model, task.output_scale)
