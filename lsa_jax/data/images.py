"""Image data sets: bundled, downloaded, or read from a data folder without any network.

    image_set = load("mnist", Path("data"))
    image_set.train.inputs  # [60000, 28, 28, 1], pixels in [0, 1]

Places below the data folder:

    digits         nowhere: comes with scikit-learn
    stars          nowhere: drawn
    mnist          mnist/ or MNIST/raw/, IDX files such as train-images-idx3-ubyte, plain or .gz
    cifar10        cifar-10-batches-bin/ (the binary version) or cifar-10-binary.tar.gz
    svhn           svhn/train_32x32.mat, svhn/test_32x32.mat (cropped digits)
    tiny_imagenet  tiny-imagenet-200/ or tiny-imagenet-200.zip
    any other      NAME/CLASS/*, or NAME/train/CLASS/* and NAME/test/CLASS/*; see `load_folder`
"""

import os
import unicodedata
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np

from lsa_jax.checks import require, text
from lsa_jax.data import _image_files, downloads, resizing, stand_ins, stars
from lsa_jax.data._image_files import ImageSet, SourceFile, compare, from_bytes, split_every_fifth
from lsa_jax.data._pictures import (
    PictureWarning,
    holds_classes,
    photographs,
    read_folder,
    read_tiny_imagenet,
)
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError, MissingDataError

__all__ = [
    "NAMES",
    "ChecksumWarning",
    "ImageSet",
    "PictureWarning",
    "load",
    "load_folder",
    "photographs",
    "read",
]

CIFAR10_CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
_DIGITS = tuple("0123456789")
_CIFAR10_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
_CIFAR10_TEST = ("test_batch.bin",)


class ChecksumWarning(UserWarning):
    """A data set was read from files that are well-formed, but not the published ones."""


def _read_digits(data_dir: Path) -> tuple[ImageSet, list[SourceFile]]:
    del data_dir  # they come with scikit-learn
    # Rows of 64 pixels and the digit. The library's reader takes half a second to import.
    package = metadata.distribution("scikit-learn")
    rows = np.loadtxt(package.locate_file("sklearn/datasets/data/digits.csv.gz"), delimiter=",")
    inputs = (rows[:, :-1].reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    return ImageSet(*split_every_fifth(inputs, rows[:, -1].astype(np.int32)), _DIGITS), []


def _mnist_split(images: np.ndarray, labels: np.ndarray, files: list[SourceFile]) -> Dataset:
    images_path, labels_path = files[0].path, files[1].path
    if images.shape[1:] != (28, 28):
        size = f"{images.shape[1]} x {images.shape[2]}"
        raise InputError(f"{images_path} holds images of {size} pixels; expected 28 x 28")
    if len(labels) != len(images):
        raise InputError(
            f"{labels_path} holds {len(labels)} labels; expected {len(images)}, one for each image "
            f"of {images_path}"
        )
    _image_files.check_labels(labels, 10, labels_path)
    return from_bytes(images[..., None], labels)


def _read_mnist(data_dir: Path) -> tuple[ImageSet, list[SourceFile]]:
    arrays, files = [], []
    for path, num_axes in zip(downloads.require("mnist", data_dir), (3, 1, 3, 1), strict=True):
        contents = _image_files.read_unpacked(path)
        arrays.append(_image_files.read_idx(contents, path, num_axes=num_axes))
        files.append(compare(path, path.name.removesuffix(".gz"), contents))
    train = _mnist_split(*arrays[:2], files[:2])
    return ImageSet(train, _mnist_split(*arrays[2:], files[2:]), _DIGITS), files


def _read_cifar10(data_dir: Path) -> tuple[ImageSet, list[SourceFile]]:
    (place,) = downloads.require("cifar10", data_dir)
    names = _CIFAR10_TRAIN + _CIFAR10_TEST
    if place.is_dir():
        if lacking := [name for name in names if not (place / name).exists()]:
            raise InputError(
                f"{place} lacks {lacking[0]}; unpack the whole archive there, or remove the folder"
            )
        contents = {name: _image_files.read_bytes(place / name) for name in names}
    else:
        contents = _image_files.read_tar_members(place, names)

    def split(names: tuple[str, ...]) -> Dataset:
        batches = [_image_files.read_cifar10_batch(contents[n], place / n) for n in names]
        images, labels = zip(*batches, strict=True)
        return from_bytes(np.concatenate(images), np.concatenate(labels))

    image_set = ImageSet(split(_CIFAR10_TRAIN), split(_CIFAR10_TEST), CIFAR10_CLASSES)
    return image_set, [compare(place / name, name, contents[name]) for name in names]


def _read_svhn(data_dir: Path) -> tuple[ImageSet, list[SourceFile]]:
    splits, files = [], []
    for path in downloads.require("svhn", data_dir):
        contents = _image_files.read_bytes(path)
        splits.append(from_bytes(*_image_files.read_svhn(contents, path)))
        files.append(compare(path, path.name, contents))
    return ImageSet(*splits, _DIGITS), files


_READERS: dict[str, Callable[[Path], tuple[ImageSet, list[SourceFile]]]] = {
    "digits": _read_digits,
    "mnist": _read_mnist,
    "cifar10": _read_cifar10,
    "svhn": _read_svhn,
    "tiny_imagenet": read_tiny_imagenet,
}
NAMES = tuple(_READERS)


def read(name: str, data_dir: Path) -> tuple[ImageSet, list[SourceFile]]:
    """Reads one of `NAMES` from a data folder, and compares checksums of its files.

    Nothing is downloaded into the folder.

    Raises:
        InputError: a file is missing or damaged; one line with its name and the expectation.
    """
    return _READERS[name](Path(data_dir))


def load_folder(
    name: str, data_dir: Path | None = None, *, size: int | None = None, fit: str = "crop"
) -> ImageSet:
    """Loads a folder of classes, even if a published data set has the same name.

    Recognised are NAME/CLASS/*, NAME/train/CLASS/* with NAME/test/CLASS/*, and NAME/CLASS/train/*
    with NAME/CLASS/test/*, also with other usual names of splits; a validation split is the test
    set where there is no other, and else left out. Pictures are all files that Pillow can read,
    upright by their EXIF orientation, the first frame of an animation, transparent pixels on white;
    pictures in folders below a class belong to that class. Hidden files are left out.

    Args:
        name: of a folder below the data folder.
        data_dir: the data folder; None means LSA_DATA_DIR.
        size: side of squares to make of the pictures, in pixels; None: all must have one size.
        fit: way of making squares, with `size`: "crop", "pad" or "squash"; see `resize`.

    Raises:
        MissingDataError: there is no such folder.
        InputError: it is damaged, holds fewer than two classes, or one image in two classes.

    Warns:
        PictureWarning: one line that counts files left out, and test images that are copies of
            training images.
    """
    name = _name(name)
    resizing.check(1 if size is None else size, fit)
    directory = (
        Path(os.path.expanduser(data_dir)) if data_dir is not None else downloads.default_data_dir()
    )
    if directory is None:
        raise _unknown(name, "there is no data folder")
    return read_folder(_folder(name, directory), size, fit)


def _name(name: str | Path) -> str:
    """Returns the name of a data set; an empty one would be the data folder itself."""
    name = os.fspath(name) if isinstance(name, Path) else name
    require("name", name, text())
    return name


def _unknown(name: str, missing: str) -> MissingDataError:
    return MissingDataError(
        f"data set {name!r} is not known and {missing}; accepted: {', '.join(NAMES)}, or the name "
        "of a folder below the data folder"
    )


def _folder(name: str, directory: Path) -> Path:
    """Returns the folder of a name, which may have another Unicode form on the disk.

    Raises:
        MissingDataError: there is none; suggests the nearest name, or the right data folder.
    """
    if (directory / name).is_dir():
        return directory / name
    if (directory / name).is_file():
        raise InputError(f"{directory / name} is a file; accepted: a folder, so unpack it there")
    wanted = unicodedata.normalize("NFC", name)
    for folder in downloads.folders(directory):
        if unicodedata.normalize("NFC", folder) == wanted:
            return directory / folder
    missing = f"{directory / name} is missing"
    if near := downloads.did_you_mean(name, directory):
        raise MissingDataError(f"{missing}; {near}")
    if holds_classes(directory):
        up = Path(os.path.abspath(directory))
        raise MissingDataError(
            f"{missing}, and {directory} is a folder of classes itself; accepted: "
            f"--data_dir={up.parent} and the folder {up.name}"
        )
    raise _unknown(name, missing)


def load(name: str, data_dir: Path | None = None) -> ImageSet:
    """Loads an image data set.

    Inputs are float32 [n, height, width, channels] in [0, 1], not normalised further; targets are
    class numbers, int32 [n]. Splits are the published ones; those of `digits` (1,437 and 360) and
    of a folder without train and test are made by `split_every_fifth`.

    Args:
        name: one of `NAMES`, "stars", or the name of a folder of classes below the data folder.
        data_dir: folder of data sets in their usual layouts; nothing is ever downloaded into it.
            None means LSA_DATA_DIR; where that is not set, the user's cache, into which missing
            files are downloaded.

    Raises:
        InputError: a file is missing or damaged; one line with its name and the expectation.

    Warns:
        ChecksumWarning: the files are well-formed, but not the published ones.
        PictureWarning: of a folder; see `load_folder`.
    """
    name = _name(name)
    if stand_ins.are_wanted() and name in stand_ins.SHAPES:
        named = CIFAR10_CLASSES if name == "cifar10" else None
        return ImageSet(*stand_ins.splits(name, named))
    if name == "stars":
        return stars.image_set()
    directory = (
        Path(os.path.expanduser(data_dir)) if data_dir is not None else downloads.default_data_dir()
    )
    if name not in NAMES:
        return load_folder(name, directory)
    if directory is None:
        directory = downloads.cache_dir()
        downloads.fetch(name, directory)
    image_set, files = read(name, directory)
    changed = [file.path for file in files if file.as_published is False]
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        warnings.warn(
            f"{name} is read from {changed[0]}{others}: well-formed, but with another checksum "
            "than the published data",
            ChecksumWarning,
            stacklevel=2,
        )
    return image_set
