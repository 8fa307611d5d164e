"""Test images of the data sets, by class: what accuracies are of, and what a constant has right."""

from collections.abc import Sequence
from typing import NamedTuple

# By class, in order; of digits every fifth, as `data.images` splits them.
_IMAGES = {
    "mnist": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    "cifar10": (1000,) * 10,
    "svhn": (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595),
    "digits": (36, 36, 36, 36, 37, 36, 36, 36, 35, 36),
}


class HeldOut(NamedTuple):
    """The test images of some classes.

    Attributes:
        images: how many there are.
        largest: share of the most frequent class.
    """

    images: int
    largest: float


def held_out(dataset: str, classes: Sequence[int] = (), most: int | None = None) -> HeldOut:
    """Returns the test images of a data set.

    Args:
        dataset: its name.
        classes: that are kept; empty keeps all.
        most: images that are taken at most; None takes all.
    """
    counts = _IMAGES[dataset]
    kept = [counts[label] for label in classes] if classes else counts
    images = sum(kept)
    return HeldOut(min(images, most or images), max(kept) / images)
