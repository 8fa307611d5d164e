"""Zeros of the published shapes, for a dry run on a machine without data."""

import numpy as np

from lsa_jax import backend
from lsa_jax.data.dataset import Dataset

# Training and test images, one image's shape, classes.
SHAPES = {
    "mnist": (60_000, 10_000, (28, 28, 1), 10),
    "cifar10": (50_000, 10_000, (32, 32, 3), 10),
    "svhn": (73_257, 26_032, (32, 32, 3), 10),
    "tiny_imagenet": (100_000, 10_000, (64, 64, 3), 200),
}

# About the number of plants from which the papers draw backgrounds.
_PHOTOGRAPHS = 1000


def are_wanted() -> bool:
    """Whether this is a dry run without data."""
    recorder = backend.dry_run()
    return recorder is not None and recorder.without_data


def splits(
    name: str, classes: tuple[str, ...] | None = None
) -> tuple[Dataset, Dataset, tuple[str, ...]]:
    """Returns zeros for training and test images of classes in turn, and the classes.

    The name is one of `SHAPES`. Without names the classes are numbered.
    """
    num_train, num_test, shape, num_classes = SHAPES[name]
    train, test = (
        Dataset(np.zeros((n, *shape), np.float32), np.arange(n, dtype=np.int32) % num_classes)
        for n in (num_train, num_test)
    )
    return train, test, classes or tuple(map(str, range(num_classes)))


def photographs(size: int) -> np.ndarray:
    """Returns photographs [n, size, size, 3], all zero."""
    return np.zeros((_PHOTOGRAPHS, size, size, 3), np.float32)
