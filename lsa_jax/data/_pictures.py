"""Pictures (JPEG, PNG and so on) in folders and archives, decoded upright on several threads.

Photographs for backgrounds, any folder of classes, and tiny ImageNet.
"""

import contextlib
import functools
import hashlib
import io
import itertools
import os
import warnings
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import Float, Integer
from PIL import Image, ImageOps

from lsa_jax.data import downloads, resizing
from lsa_jax.data._folders import (
    Classes,
    FileTree,
    counted,
    folder_tree,
    layout,
    suffix,
    suffixes,
    zip_tree,
)
from lsa_jax.data._image_files import ImageSet, SourceFile, compare, read_bytes, split_every_fifth
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError

_GREY = ("1", "L", "LA")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")


class PictureWarning(UserWarning):
    """Files were left out, or some pictures are both trained and tested on."""


def warn(directory: Path, remarks: list[str]) -> None:
    """Warns in one line about the files of a folder that were left out, if there are any."""
    if remarks:
        warnings.warn(f"{directory}: {'; '.join(remarks)}", PictureWarning, stacklevel=3)


def left_out(tree: FileTree) -> list[str]:
    """Returns a remark on the files of a tree that may be pictures and cannot be read."""
    unreadable = counted(tree.unreadable())
    return [f"files left out that Pillow cannot read: {unreadable}"] if unreadable else []


def _upright(image: Image.Image) -> Image.Image:
    """Returns a picture turned by its EXIF orientation, on white where it is transparent."""
    grey = image.mode in _GREY
    image = ImageOps.exif_transpose(image)
    if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA"):
        shown = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown)
    return image.convert("L" if grey else "RGB")


def _decode(tree: FileTree, name: str, prepare: Callable[[Image.Image], np.ndarray]) -> np.ndarray:
    """Returns one picture [height, width, 1 or 3]."""
    contents = tree.read(name)
    try:
        with Image.open(io.BytesIO(contents)) as image:
            mode = image.mode
            pixels = prepare(image) if mode in _GREY + _COLOUR else None
    except Exception as error:  # damaged files raise errors of every kind from inside Pillow
        reason = type(error).__name__  # Pillow's own message names a buffer in memory
        raise InputError(f"{tree.path(name)} cannot be read as a picture ({reason})") from None
    if pixels is None:
        raise InputError(f"{tree.path(name)} has pixels of kind {mode}; expected 8 bits a channel")
    return pixels.reshape(*pixels.shape[:2], -1)


def _as_it_is(image: Image.Image) -> np.ndarray:
    return np.asarray(_upright(image))


def in_colour(image: Image.Image) -> np.ndarray:
    """Returns the pixels of an opened picture [h, w, 3], whatever its kind."""
    return np.asarray(_upright(image).convert("RGB"))


def _as_square(image: Image.Image, size: int, fit: str) -> np.ndarray:
    """Returns a picture as a square of a size, by `resizing.resize`."""
    # Large JPEGs are decoded at the smallest scale (1/2, 1/4, 1/8) with twice the pixels needed.
    image.draft("RGB", (2 * size, 2 * size))
    pixels = np.asarray(_upright(image))
    pixels = resizing.square(pixels.reshape(*pixels.shape[:2], -1), fit)
    if pixels.shape[:2] == (size, size):
        return pixels
    return resizing.resize_one(pixels.astype(np.float32), size)


def decode(
    tree: FileTree, names: list[str], prepare: Callable[[Image.Image], np.ndarray] = _as_it_is
) -> Float[np.ndarray, "n h w c"]:
    """Returns pictures of one size, with pixels in [0, 1], in the order of their names.

    Upright by their EXIF orientation; the first frame of an animation; transparent pixels on white.
    One channel where every picture is grey, else three. `prepare` turns an opened picture into an
    array [h, w] or [h, w, c] with pixels to 255.

    Raises:
        InputError: a picture cannot be read, or differs from the first in size.
    """
    with ThreadPoolExecutor() as executor:
        pixels = list(executor.map(lambda name: _decode(tree, name, prepare), names))
    height, width = pixels[0].shape[:2]
    for name, picture in zip(names, pixels, strict=True):
        if picture.shape[:2] != (height, width):
            raise InputError(
                f"{tree.path(name)} has {picture.shape[1]} x {picture.shape[0]} pixels; expected "
                f"{width} x {height}, as {tree.path(names[0])}; load_folder(..., size=32) and "
                "config.data.image_size bring pictures to one size"
            )
    channels = max(picture.shape[2] for picture in pixels)
    decoded = np.empty((len(pixels), height, width, channels), np.float32)
    for row, picture in zip(decoded, pixels, strict=True):
        row[:] = picture  # a grey picture among colour ones fills all three channels
    decoded /= 255
    return decoded


def decode_squares(
    tree: FileTree, names: list[str], size: int, fit: str
) -> Float[np.ndarray, "n size size c"]:
    """Returns pictures of any sizes as squares, with pixels in [0, 1]; see `resizing.resize`."""
    return decode(tree, names, functools.partial(_as_square, size=size, fit=fit))


def _photograph(image: Image.Image, size: int, fit: str) -> np.ndarray:
    """Returns a picture as a square in colour, by Pillow's bilinear filter."""
    # Large JPEGs are decoded at the smallest scale (1/2, 1/4, 1/8) that still holds the square.
    image.draft("RGB", (size, size))
    pixels = resizing.square(in_colour(image), fit)
    shown = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(shown.resize((size, size), Image.Resampling.BILINEAR))


def photographs(
    directory: Path, size: int, synset: Collection[str] | None = None, *, fit: str = "crop"
) -> Float[np.ndarray, "m size size 3"]:
    """Returns the pictures below a folder as colour squares with pixels in [0, 1].

    Each is made upright and square ("crop" takes the largest square at the centre, "pad" adds black
    on both sides, "squash" changes its proportions), and resized by a bilinear filter that averages
    where it shrinks; a square of that size is not altered. Sorted by path, each file once, even
    where several links lead to it. Transparent pixels are on white. With a synset only the pictures
    in folders of its WordNet ids (n00017222 and so on) directly below `directory` are taken, as in
    ImageNet.

    Raises:
        InputError: no such folder, no picture in it, or one that cannot be read.

    Warns:
        PictureWarning: files that may be pictures were left out, with their number.
    """
    resizing.check(size, fit)
    if isinstance(synset, str) or (synset is not None and not len(synset)):
        raise InputError(f"synset is {synset!r}; accepted: a collection of WordNet ids, or None")
    tree = folder_tree(Path(os.path.expanduser(directory)))
    names = tree.pictures()
    if not names:
        skipped = f" (left out: {counted(tree.unreadable())})" if tree.unreadable() else ""
        raise InputError(
            f"{directory} holds no pictures{skipped}; expected .jpg, .png and others of Pillow"
        )
    if synset is not None:
        names = [name for name in names if name.split("/")[0] in synset]
    if not names:
        raise InputError(
            f"{directory} holds no pictures of the {len(synset)} classes of the synset; expected "
            f"folders such as {min(synset)}"
        )
    warn(directory, left_out(tree))
    return decode(tree, tree.once(names), functools.partial(_photograph, size=size, fit=fit))


# --- data sets ----------------------------------------------------------------------------------

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
    # Unpacked archives have no checksum: a count shows whether unpacking was interrupted.
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

    The test set is its validation part, because the labels of its test part are not published.
    Classes are named, and ordered, by their WordNet numbers.

    Raises:
        InputError: a file is missing or damaged, or a class has another number of pictures than
            published.
    """
    (place,) = downloads.require("tiny_imagenet", data_dir)
    if place.is_dir():
        tree, file = folder_tree(place), SourceFile(place, None)
    else:
        contents = read_bytes(place)
        tree = zip_tree(contents, place, _TINY)
        file = compare(place, place.name, contents)
    splits, classes = [], {}
    for classes in _tiny_classes(tree):
        names = _names(classes)
        inputs = decode(tree, names, in_colour)
        if inputs.shape[1:3] != (64, 64):
            size = f"{inputs.shape[2]} x {inputs.shape[1]}"
            raise InputError(f"{tree.path(names[0])} has {size} pixels; expected 64 x 64")
        splits.append(Dataset(inputs, _labels(classes)))
    return ImageSet(*splits, tuple(classes)), [file]


def _copies(train: Dataset, test: Dataset) -> list[str]:
    """Returns a remark on test pictures with the same pixels as a training picture."""
    digests = {hashlib.sha1(row.tobytes()).digest() for row in train.inputs}
    copies = sum(hashlib.sha1(row.tobytes()).digest() in digests for row in test.inputs)
    of_all = f"{copies} of {len(test.inputs)} test pictures"
    return [f"{of_all} are copies of training pictures"] if copies else []


def _lacking(names: tuple[str, ...], part: Dataset) -> str:
    """Lists the classes, of these names, without a picture in a part."""
    return ", ".join(name for label, name in enumerate(names) if not (part.targets == label).any())


def _split(directory: Path, names: tuple[str, ...], *data: np.ndarray) -> tuple[tuple, list[str]]:
    """Returns `split_every_fifth` of inputs and labels, and a remark on classes it does not test.

    Raises:
        InputError: a class, of these names, has no training picture.
    """
    train, test = split_every_fifth(*data)
    if lacking := _lacking(names, train):
        raise InputError(
            f"{directory} has one picture of {lacking}, and the first of every five is a test "
            "picture; accepted: two of each class or more, or folders train and test"
        )
    lacking = _lacking(names, test)
    return (train, test), [f"no test pictures of {lacking}: fewer than five"] if lacking else []


def read_folder(directory: Path, size: int | None = None, fit: str = "crop") -> ImageSet:
    """Reads a directory of pictures, one folder a class, ordered by name.

    `_folders.layout` divides it; `split_every_fifth` takes the test examples where there are no
    splits. With a `size` pictures become squares, see `resizing.resize`; without it all must have
    one size. One channel where all are grey, else three.

    Raises:
        InputError: there are fewer than two classes, they differ between train and test, one has
            no training picture, a picture is in two of them, or cannot be read, or has another size
            than the first.

    Warns:
        PictureWarning: one line on files left out, on classes without test pictures, and on test
            pictures that are copies of training pictures.
    """
    tree = folder_tree(directory)
    found = layout(tree)
    names = _names(found.train) + _names(found.test or {})
    # Together, so that both splits have the same size and channels.
    inputs = decode(tree, names) if size is None else decode_squares(tree, names, size, fit)
    labels, count = _labels(found.train), len(_names(found.train))
    if found.test is None:
        splits, untested = _split(directory, tuple(found.train), inputs, labels)
    else:
        splits = Dataset(inputs[:count], labels), Dataset(inputs[count:], _labels(found.test))
        untested = []
    warn(directory, [*left_out(tree), *found.remarks, *untested, *_copies(*splits)])
    return ImageSet(*splits, tuple(found.train))


def holds_classes(directory: Path) -> bool:
    """Whether two folders in a folder hold pictures, as folders of classes do."""
    known = suffixes()
    holding = 0
    for folder in downloads.folders(directory):
        with contextlib.suppress(OSError), os.scandir(directory / folder) as entries:
            holding += any(suffix(entry.name) in known for entry in entries)
    return holding > 1
