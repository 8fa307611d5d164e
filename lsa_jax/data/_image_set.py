"""An image data set as it comes, and which of its files are the published ones."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer, UInt8

from lsa_jax.data.dataset import Dataset
from lsa_jax.data.downloads import CONTENTS_MD5


class ImageSet(NamedTuple):
    """A data set with both of its splits, before a task is made of it.

    Attributes:
        train: inputs float32 [n, height, width, channels] in [0, 1]; targets int32 [n], the class.
        test: likewise.
        class_names: one a class; targets count from 0 in this order.
    """

    train: Dataset
    test: Dataset
    class_names: tuple[str, ...]


class SourceFile(NamedTuple):
    """One file that a data set was read from.

    Attributes:
        path: where it lies.
        as_published: whether its contents, without compression, are the published ones; None where
            no checksum of them is published.
    """

    path: Path
    as_published: bool | None


def compare(path: Path, name: str, contents: bytes) -> SourceFile:
    """Compares a file's contents with those published under a name of `CONTENTS_MD5`."""
    digest = hashlib.md5(contents, usedforsecurity=False).hexdigest()
    return SourceFile(path, digest == CONTENTS_MD5[name])


def from_bytes(images: UInt8[np.ndarray, "n h w c"], labels: Integer[np.ndarray, " n"]) -> Dataset:
    """Returns images of bytes as pixels in [0, 1], without further normalisation."""
    inputs = images.astype(np.float32, order="C")
    inputs /= 255
    return Dataset(inputs, labels.astype(np.int32))


def split_every_fifth(
    inputs: np.ndarray, labels: Integer[np.ndarray, " n"]
) -> tuple[Dataset, Dataset]:
    """Splits examples that come without a test set, in the same way on every machine.

    With the examples of the classes laid one after the other, the first of every five is a test
    example. So a class gives a fifth of its examples to the test set, to within one.

    Returns:
        training and test examples, each in their original order.
    """
    test = np.zeros(len(labels), bool)
    test[np.argsort(labels, kind="stable")[::5]] = True
    return Dataset(inputs[~test], labels[~test]), Dataset(inputs[test], labels[test])
