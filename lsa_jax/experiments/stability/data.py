"""The images that samples are drawn from: both splits in one pool, read once."""

import json
from pathlib import Path
from typing import NamedTuple

import ml_collections
import numpy as np

from lsa_jax.data import images, resize
from lsa_jax.errors import InputError
from lsa_jax.experiments.stability.samples import ExamplePool, pack
from lsa_jax.experiments.stability.settings import LINEAR
from lsa_jax.sweep.points import Point


class Data(NamedTuple):
    """What all points read.

    Attributes:
        pool: training pool, then test examples; flat rows and signs for linear models, images and
            one-hot rows for networks.
        num_train: size of the training pool.
    """

    pool: ExamplePool
    num_train: int


def _signs(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Returns -1 for the first half of the classes and 1 for the second."""
    return np.where(labels < num_classes / 2, -1.0, 1.0).astype(np.float32)


def make_data(config: ml_collections.ConfigDict, data_dir: Path | None) -> Data:
    """Reads the images and lays both splits in one pool.

    Raises:
        InputError: data are missing, or fewer than are asked for.
    """
    found = images.load(config.data.dataset, data_dir)
    test, count = found.test, config.data.num_test
    if count is not None:
        if count > len(test.targets):
            raise InputError(
                f"config.data.num_test is {count}; accepted: 1 to {len(test.targets)}, or None"
            )
        draws = np.random.default_rng(config.data.test_seed).random(len(test.targets))
        chosen = np.sort(np.argsort(draws)[:count])
        test = test._replace(inputs=test.inputs[chosen], targets=test.targets[chosen])
    inputs = np.concatenate([found.train.inputs, test.inputs])
    inputs = pack(inputs if config.data.size is None else resize(inputs, config.data.size))
    labels = np.concatenate([found.train.targets, test.targets])
    classes = len(found.class_names)
    if config.learner in LINEAR:
        inputs, targets = inputs.reshape(len(inputs), -1), _signs(labels, classes)
    else:
        targets = np.eye(classes, dtype=np.float32)[labels]
    return Data(ExamplePool(inputs, targets), len(found.train.targets))


def data_key(config: ml_collections.ConfigDict) -> str:
    """Returns what tells data sets apart."""
    return json.dumps([config.data.to_dict(), config.learner in LINEAR], sort_keys=True)


def load(points: list[Point], data_dir: Path | None) -> dict[str, Data]:
    """Reads every data set that the points need once."""
    data: dict[str, Data] = {}
    for point in points:
        key = data_key(point.config)
        if key not in data:
            data[key] = make_data(point.config, data_dir)
        if point.config.m > data[key].num_train:
            raise InputError(
                f"config.m is {point.config.m}; accepted: at most the training pool's "
                f"{data[key].num_train}"
            )
    return data
