"""Classification tasks made of an image data set, with one-hot targets.

Karp et al. (NeurIPS 2021), section 6: CIFAR-2 (animals against vehicles) and CIFAR-Vehicles (the
four vehicles, with the animals as distractors).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from lsa_jax.arrays import check_axes
from lsa_jax.checks import integer, is_integer, require
from lsa_jax.data._image_files import ImageSet
from lsa_jax.data.dataset import Dataset, checked_dataset
from lsa_jax.errors import InputError

ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
VEHICLES = ("airplane", "automobile", "ship", "truck")
TASKS = ("all", "cifar2", "vehicles")


class TaskData(NamedTuple):
    """A task: examples, their classes, and distractors.

    Attributes:
        train: inputs [n, h, w, c], one-hot targets float32 [n, classes].
        test: likewise.
        class_names: of the targets' columns.
        distractors_train: training images [m, h, w, c] of classes outside the task; None without
            such classes.
        distractors_test: likewise, from the test images.
    """

    train: Dataset
    test: Dataset
    class_names: tuple[str, ...]
    distractors_train: Float[np.ndarray, "m h w c"] | None
    distractors_test: Float[np.ndarray, "m h w c"] | None


def _grouping(
    class_names: tuple[str, ...], task: str, classes: Sequence[int]
) -> tuple[tuple[str, ...], Integer[np.ndarray, " old"]]:
    """Returns the names of the task's classes, and the new label of each old one (-1: none)."""
    if task not in TASKS:
        raise InputError(f"task is {task!r}; accepted: {', '.join(TASKS)}")
    names, new = class_names, np.full(len(class_names), -1, np.int32)
    if task == "all":
        kept = tuple(classes) or tuple(range(len(class_names)))
        outside = [c for c in kept if not (is_integer(c) and 0 <= c < len(class_names))]
        if outside:
            raise InputError(f"classes holds {outside[0]!r}; accepted: 0 to {len(class_names) - 1}")
        if len(kept) < 2 or len(set(kept)) < len(kept):
            raise InputError(f"classes is {kept}; accepted: two different classes or more")
        new[list(kept)] = np.arange(len(kept))
        return tuple(names[c] for c in kept), new
    if sorted(class_names) != sorted(ANIMALS + VEHICLES):
        raise InputError(f"task {task!r} needs the classes of CIFAR-10; accepted here: 'all'")
    if len(classes):
        raise InputError(f"classes is {tuple(classes)}, with task {task!r}; accepted: ()")
    if task == "cifar2":
        return ("animals", "vehicles"), np.array([int(n in VEHICLES) for n in names], np.int32)
    for label, name in enumerate(VEHICLES):
        new[names.index(name)] = label
    return VEHICLES, new


def subset_order(
    labels: Integer[np.ndarray, " n"], seed: tuple[int, ...]
) -> Integer[np.ndarray, " n"]:
    """Returns an order in which every prefix is a class-balanced random subset.

    Each round takes a random example of every class that has examples left, in random order. So
    counts by class in the first n differ by at most one until a class is used up, and the subset of
    a larger n contains the subset of a smaller one. The seed draws the order of these labels.
    """
    # Sorting by uniform draws rather than `permutation`, whose algorithm numpy may change.
    draws = np.random.default_rng(seed).random(len(labels))
    by_class = np.lexsort((draws, labels))
    in_order = labels[by_class]
    rounds = np.empty(len(labels), np.int64)
    rounds[by_class] = np.arange(len(labels)) - np.searchsorted(in_order, in_order)
    # New draws: within a class the old ones rise from round to round.
    ties = np.random.default_rng((*seed, 1)).random(len(labels))
    return np.lexsort((ties, rounds))


def _take(
    dataset: Dataset,
    new_label: Integer[np.ndarray, " old"],
    num_classes: int,
    *,
    field: str,
    count: int | None,
    seed: tuple[int, ...],
) -> Dataset:
    """Returns the examples of a task in their order, or a subset drawn by `subset_order`."""
    labels = new_label[dataset.targets]
    index = np.flatnonzero(labels >= 0)
    if count is not None:
        if not is_integer(count) or not 1 <= count <= len(index):
            raise InputError(f"{field} is {count}; accepted: 1 to {len(index)}, or None for all")
        index = index[subset_order(labels[index], seed)[:count]]
    one_hot = np.eye(num_classes, dtype=np.float32)[labels[index]]
    everything = count is None and len(index) == len(labels)
    return Dataset(dataset.inputs if everything else dataset.inputs[index], one_hot)


def _checked(name: str, dataset: Dataset, num_classes: int) -> Dataset:
    """Returns images and the numbers of their classes as numpy arrays.

    Raises:
        InputError: they are none, or differ in length.
    """
    found = checked_dataset(name, dataset)
    inputs, targets = map(np.asarray, found)
    check_axes(f"{name}.targets", targets.shape, "n")
    if targets.dtype.kind not in "iu" or targets.min() < 0 or targets.max() >= num_classes:
        raise InputError(
            f"{name}.targets is {targets.dtype} from {targets.min()} to {targets.max()}; accepted: "
            f"the numbers of classes, integers from 0 to {num_classes - 1}"
        )
    return Dataset(inputs, targets)


def task_view(
    image_set: ImageSet,
    task: str,
    *,
    classes: Sequence[int] = (),
    num_train: int | None = None,
    num_test: int | None = None,
    subset_seed: int = 0,
) -> TaskData:
    """Makes a task of a data set.

    "all" keeps the classes, or those of these numbers, renumbered in the order given; "cifar2" is
    CIFAR-10's animals against its vehicles; "vehicles" is its four vehicles, with the animals as
    distractors. `num_train` and `num_test` are sizes of random class-balanced subsets, drawn by the
    seed: a larger subset begins with the smaller ones. None keeps all examples, in their order.

    Raises:
        InputError: the task does not fit the data set, an array is not accepted, a class is out of
            range, or there are fewer examples than requested.
    """
    class_names, new_label = _grouping(image_set.class_names, task, classes)
    require("subset_seed", subset_seed, integer(0))
    found = [
        _checked(f"image_set.{part}", getattr(image_set, part), len(image_set.class_names))
        for part in ("train", "test")
    ]
    train, test = (
        _take(
            dataset, new_label, len(class_names), field=field, count=count, seed=(subset_seed, part)
        )
        for part, (dataset, field, count) in enumerate(
            zip(found, ("num_train", "num_test"), (num_train, num_test), strict=True)
        )
    )
    others = (None, None)
    if task == "vehicles":
        others = (part.inputs[new_label[part.targets] < 0] for part in found)
    return TaskData(train, test, class_names, *others)
