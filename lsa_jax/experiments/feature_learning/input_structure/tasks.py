"""Labelled inputs and injected ones, as the points of a sweep need them, and mixtures of both."""

from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
import numpy as np
from jaxtyping import Float, Int

from lsa_jax.data import images, tasks
from lsa_jax.data.resizing import resize
from lsa_jax.experiments.feature_learning.streams import InputStructure
from lsa_jax.sweep.points import Point

_GAUSSIAN_TRAIN, _GAUSSIAN_TEST = 0, 1  # of the data's own key


class Inputs(NamedTuple):
    """The inputs of one split: labelled ones first, then as many injected ones.

    Attributes:
        inputs: [2 n, height, width, c], the labelled ones standardised as a whole.
        targets: [2 n, classes], one-hot for the labelled ones, zeros for the others.
    """

    inputs: Float[np.ndarray, "n h w c"]
    targets: Float[np.ndarray, "n classes"]


class Material(NamedTuple):
    """Both splits."""

    train: Inputs
    test: Inputs


def _injected(
    config: ml_collections.ConfigDict, shapes: list[tuple[int, ...]], data_dir: Path | None
) -> list[np.ndarray]:
    """Returns U of training and of test, before standardisation where they are images."""
    if config.data.injected == "gaussian":
        key = jax.random.key(config.data.seed)
        return [
            np.asarray(jax.random.normal(jax.random.fold_in(key, stream), shape))
            for stream, shape in zip((_GAUSSIAN_TRAIN, _GAUSSIAN_TEST), shapes, strict=True)
        ]
    image_set = images.load("tiny_imagenet", data_dir)
    drawn = []
    for part, shape, seed in zip((image_set.train, image_set.test), shapes, (0, 1), strict=True):
        order = tasks.subset_order(np.asarray(part.targets), (config.data.seed, seed))
        # Where there are fewer pictures than labelled images, they come again.
        chosen = order[np.arange(shape[0]) % len(order)]
        drawn.append(np.asarray(resize(part.inputs[chosen], shape[1])))
    return drawn


def load(points: list[Point], data_dir: Path | None) -> dict[str, Material]:
    """Reads the labelled images and reads or draws the injected inputs, by their kind."""
    configs = {point.config.data.injected: point.config for point in points}
    return {kind: _material(config, data_dir) for kind, config in configs.items()}


def _material(config: ml_collections.ConfigDict, data_dir: Path | None) -> Material:
    task = tasks.task_view(
        images.load(config.data.dataset, data_dir),
        "all",
        num_train=config.data.num_train,
        num_test=config.data.num_test,
        subset_seed=config.data.seed,
    )
    labelled = [task.train, task.test]
    injected = _injected(config, [part.inputs.shape for part in labelled], data_dir)
    mean, std = task.train.inputs.mean(), task.train.inputs.std()
    if config.data.injected != "gaussian":
        injected = [(part - mean) / std for part in injected]
    elif config.data.gaussian_law == "pixelwise":
        pixels = (np.asarray(task.train.inputs) - mean) / std
        injected = [pixels.mean(axis=0) + pixels.std(axis=0) * part for part in injected]
    return Material(
        *(
            Inputs(
                np.concatenate([(part.inputs - mean) / std, u]).astype(np.float32),
                np.concatenate([part.targets, np.zeros_like(part.targets)]),
            )
            for part, u in zip(labelled, injected, strict=True)
        )
    )


def mixture_parts(share: float, count: int) -> tuple[int, int]:
    """Returns how many labelled and how many injected inputs a mixture has, of `count` of each.

    It is as much of the union of both as has the share: all of them at a half, all labelled and
    fewer injected ones below, all injected and fewer labelled ones above.
    """
    if share <= 0.5:
        return count, round(count * share / (1 - share))
    return round(count * (1 - share) / share), count


def mix(point: Point, which: int, count: int) -> Int[np.ndarray, " n"]:
    """Draws which of 2 `count` inputs are in a mixture, shuffled; see `mixture_parts`."""
    key = jax.random.fold_in(jax.random.key(point.config.seed), InputStructure.MIXTURE)
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist() + [which])
    labelled, injected = mixture_parts(point.config.share, count)
    chosen = [
        generator.permutation(count)[:labelled],
        count + generator.permutation(count)[:injected],
    ]
    return generator.permutation(np.concatenate(chosen)).astype(np.int32)
