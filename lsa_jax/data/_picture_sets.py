"""Data sets that are folders or archives of pictures: tiny ImageNet, and any folder of classes."""

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from lsa_jax.data import _image_files, _pictures, downloads
from lsa_jax.data._image_set import ImageSet, SourceFile, compare, split_every_fifth
from lsa_jax.data._pictures import FileTree
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError

# Names of pictures by class, in the order of the labels.
Classes = dict[str, list[str]]

_TINY = "tiny-imagenet-200"
_TINY_PER_CLASS = {"train": 500, "val": 50}


def _names(classes: Classes) -> list[str]:
    return list(itertools.chain.from_iterable(classes.values()))


def _labels(classes: Classes) -> Integer[np.ndarray, " n"]:
    counts = [len(names) for names in classes.values()]
    return np.repeat(np.arange(len(classes), dtype=np.int32), counts)


def _tiny_lines(tree: FileTree, name: str) -> list[list[str]]:
    """Returns the words of each line of one of tiny ImageNet's text files."""
    if name not in tree.names:
        raise InputError(f"{tree.path(name)} does not exist; expected in tiny ImageNet")
    return [line.split() for line in tree.read(name).decode(errors="replace").splitlines()]


def _tiny_classes(tree: FileTree) -> tuple[Classes, Classes]:
    """Returns the training and the validation pictures of tiny ImageNet."""
    annotations = "val/val_annotations.txt"
    ids = sorted(words[0] for words in _tiny_lines(tree, "wnids.txt") if words)
    class_of = {words[0]: words[1] for words in _tiny_lines(tree, annotations) if len(words) > 1}
    train: Classes = {wnid: [] for wnid in ids}
    val: Classes = {wnid: [] for wnid in ids}
    for name in tree.pictures("train"):
        wnid = name.split("/")[1]
        if wnid not in train:
            raise InputError(f"{tree.path(name)} is of a class that wnids.txt does not list")
        train[wnid].append(name)
    for name in tree.pictures("val"):
        wnid = class_of.get(name.rsplit("/", 1)[-1])
        if wnid not in val:
            raise InputError(f"{tree.path(name)} has no class of wnids.txt in {annotations}")
        val[wnid].append(name)
    # Unpacked archives have no checksum: a count is what tells that unpacking was interrupted.
    for part, classes in (("train", train), ("val", val)):
        for wnid, names in classes.items():
            if len(names) != _TINY_PER_CLASS[part]:
                raise InputError(
                    f"{tree.path(part)} holds {len(names)} pictures of class {wnid}; "
                    f"expected {_TINY_PER_CLASS[part]}"
                )
    return train, val


def read_tiny_imagenet(data_dir: Path) -> tuple[ImageSet, list[SourceFile]]:
    """Reads tiny ImageNet from its folder or its zip archive.

    Its validation part is the test set, for the labels of its test part are not published. Classes
    are named, and ordered, by their WordNet numbers.

    Raises:
        InputError: a file is missing or damaged, or a class has not the published number of
            pictures.
    """
    (place,) = downloads.require("tiny_imagenet", data_dir)
    if place.is_dir():
        tree, file = _pictures.folder_tree(place), SourceFile(place, None)
    else:
        contents = _image_files.read_bytes(place)
        tree = _pictures.zip_tree(contents, place, _TINY)
        file = compare(place, place.name, contents)
    splits, classes = [], {}
    for classes in _tiny_classes(tree):
        names = _names(classes)
        inputs = _pictures.decode(tree, names, lambda image: image.convert("RGB"))
        if inputs.shape[1:3] != (64, 64):
            size = f"{inputs.shape[2]} x {inputs.shape[1]}"
            raise InputError(f"{tree.path(names[0])} has {size} pixels; expected 64 x 64")
        splits.append(Dataset(inputs, _labels(classes)))
    return ImageSet(*splits, tuple(classes)), [file]


def _folder_classes(tree: FileTree, part: str) -> Classes:
    """Returns the pictures of each class folder below a part ("" for the whole tree), by name."""
    classes: Classes = {}
    for name in tree.pictures(part):
        class_name, slash, _ = name[len(part) :].lstrip("/").partition("/")
        if not slash:
            raise InputError(f"{tree.path(name)} lies in no class; expected one folder a class")
        classes.setdefault(class_name, []).append(name)
    if len(classes) < 2:
        found = ", ".join(classes) or "none"
        raise InputError(
            f"{tree.path(part)} has class folders with pictures: {found}; expected two or more"
        )
    return dict(sorted(classes.items()))


def _same_classes(directory: Path, train: Iterable[str], test: Iterable[str]) -> None:
    different = sorted(set(train) ^ set(test))
    if different:
        raise InputError(f"{directory} has class {different[0]} in only one of train and test")


def read_folder(directory: Path) -> ImageSet:
    """Reads a directory of pictures of one size, one folder a class.

    Either train/CLASS/* and test/CLASS/*, or CLASS/*, of which `split_every_fifth` takes the test
    examples. Classes are ordered by name. One channel where all pictures are grey, else three.

    Raises:
        InputError: there are fewer than two classes, they differ between train and test, or a
            picture cannot be read or has another size than the first.
    """
    tree = _pictures.folder_tree(directory)
    parts = [part for part in ("train", "test") if (directory / part).is_dir()]
    if not parts:
        classes = _folder_classes(tree, "")
        inputs = _pictures.decode(tree, _names(classes))
        return ImageSet(*split_every_fifth(inputs, _labels(classes)), tuple(classes))
    if len(parts) == 1:
        raise InputError(f"{directory} has a folder {parts[0]}; expected both train and test")
    train, test = (_folder_classes(tree, part) for part in parts)
    _same_classes(directory, train, test)
    # Together, so that both splits have the same size and channels.
    inputs = _pictures.decode(tree, _names(train) + _names(test))
    train_labels, test_labels = _labels(train), _labels(test)
    return ImageSet(
        Dataset(inputs[: len(train_labels)], train_labels),
        Dataset(inputs[len(train_labels) :], test_labels),
        tuple(train),
    )
