"""Data sets that are folders or archives of pictures: tiny ImageNet, and any folder of classes."""

import contextlib
import hashlib
import itertools
import os
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from lsa_jax.data import _image_files, _pictures, downloads
from lsa_jax.data._file_trees import FileTree, folder_tree, suffix, suffixes, zip_tree
from lsa_jax.data._image_set import ImageSet, SourceFile, compare, split_every_fifth
from lsa_jax.data._layouts import Classes, layout
from lsa_jax.data._pictures import once
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError

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
        tree, file = folder_tree(place), SourceFile(place, None)
    else:
        contents = _image_files.read_bytes(place)
        tree = zip_tree(contents, place, _TINY)
        file = compare(place, place.name, contents)
    splits, classes = [], {}
    for classes in _tiny_classes(tree):
        names = _names(classes)
        inputs = _pictures.decode(tree, names, _pictures.in_colour)
        if inputs.shape[1:3] != (64, 64):
            size = f"{inputs.shape[2]} x {inputs.shape[1]}"
            raise InputError(f"{tree.path(names[0])} has {size} pixels; expected 64 x 64")
        splits.append(Dataset(inputs, _labels(classes)))
    return ImageSet(*splits, tuple(classes)), [file]


def _each_once(tree: FileTree, classes: Classes, part: str, owners: dict) -> tuple[Classes, int]:
    """Returns the pictures of a split, each once, and how many further links there are to them.

    Args:
        tree: where the pictures are.
        classes: their names by class.
        part: of the split, for messages.
        owners: filled with the split, the class and the name of every file.

    Raises:
        InputError: links in two classes or splits lead to one file.
    """
    kept: Classes = {}
    links = 0
    for class_name, names in classes.items():
        kept[class_name] = once(tree, names)
        links += len(names) - len(kept[class_name])
        for name in kept[class_name]:
            place = (part, class_name)
            owner, first = owners.setdefault(tree.numbers.get(name, name), (place, name))
            if owner != place:
                kinds = "splits" if owner[1] == class_name else "classes"
                raise InputError(
                    f"{tree.path(first)} and {tree.path(name)} are one file in two {kinds}; "
                    "accepted: each picture in one"
                )
    return kept, links


def _copies(train: Dataset, test: Dataset) -> list[str]:
    """Returns a remark on test pictures with the very pixels of a training picture."""
    digests = {hashlib.sha1(row.tobytes()).digest() for row in train.inputs}
    copies = sum(hashlib.sha1(row.tobytes()).digest() in digests for row in test.inputs)
    of_all = f"{copies} of {len(test.inputs)} test pictures"
    return [f"{of_all} are copies of training pictures"] if copies else []


def read_folder(directory: Path, size: int | None = None, fit: str = "crop") -> ImageSet:
    """Reads a directory of pictures, one folder a class.

    Divided as `_layouts.layout` recognises it; `split_every_fifth` takes the test examples where
    there are no splits. Classes are ordered by name. One channel where all pictures are grey, else
    three.

    Args:
        directory: of the pictures.
        size: side of the squares that they are made; None takes pictures that are of one size.
        fit: how pictures become square; see `resizing.resize`.

    Raises:
        InputError: there are fewer than two classes, they differ between train and test, a picture
            is in two of them, or cannot be read, or has another size than the first.

    Warns:
        PictureWarning: one line with all that was left out, and with copies of training pictures
            among those tested on.
    """
    tree = folder_tree(directory)
    found = layout(tree)
    owners: dict = {}
    train, links = _each_once(tree, found.train, "train", owners)
    test, further = _each_once(tree, found.test or {}, "test", owners)
    names = _names(train) + _names(test)
    # Together, so that both splits have the same size and channels.
    inputs = (
        _pictures.decode(tree, names)
        if size is None
        else _pictures.decode_squares(tree, names, size, fit)
    )
    labels, count = _labels(train), len(_names(train))
    if found.test is None:
        splits = split_every_fifth(inputs, labels)
    else:
        splits = Dataset(inputs[:count], labels), Dataset(inputs[count:], _labels(test))
    remarks = [*_pictures.left_out(tree), *found.remarks, *_copies(*splits)]
    if links + further:
        remarks.append(f"{links + further} further links to the same pictures left out")
    _pictures.warn(directory, remarks)
    return ImageSet(*splits, tuple(train))


def holds_classes(directory: Path) -> bool:
    """Whether two folders in a folder hold pictures, as those of classes do."""
    known = suffixes()
    holding = 0
    for folder in downloads.folders(directory):
        with contextlib.suppress(OSError), os.scandir(directory / folder) as entries:
            holding += any(suffix(entry.name) in known for entry in entries)
    return holding > 1
