"""Readers of the published image formats, and the data set made of their files.

Every reader takes the contents of a file, and its path for messages, and returns images as uint8
[n, height, width, channels] and integer labels [n].
"""

import gzip
import hashlib
import io
import tarfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer, UInt8

from lsa_jax.data.dataset import Dataset
from lsa_jax.data.downloads import CONTENTS_MD5
from lsa_jax.errors import InputError, MissingDataError, one_line

CIFAR10_SHAPE = (3, 32, 32)
CIFAR10_BATCH = 10_000
_IDX_MAGIC = {1: 0x801, 3: 0x803}  # unsigned bytes in an array of 1 or 3 axes
_DAMAGE = (tarfile.TarError, EOFError, OSError, zlib.error)


class ImageSet(NamedTuple):
    """An image data set with its training and test examples.

    Attributes:
        train: inputs float32 [n, height, width, channels] in [0, 1]; targets int32 [n], the class.
        test: likewise.
        class_names: one a class; targets count from 0 in this order.
    """

    train: Dataset
    test: Dataset
    class_names: tuple[str, ...]


class SourceFile(NamedTuple):
    """One file of a data set, and whether its contents are the published ones.

    Contents are compared without compression; None where no checksum is published.
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
    """Splits examples without a test set, in the same way on every machine.

    With the examples sorted by class, the first of every five is a test example: a class gives a
    fifth of its examples, to within one. Both parts stay in their original order.
    """
    test = np.zeros(len(labels), bool)
    test[np.argsort(labels, kind="stable")[::5]] = True
    return Dataset(inputs[~test], labels[~test]), Dataset(inputs[test], labels[test])


def read_bytes(path: Path) -> bytes:
    """Returns a file's contents.

    Raises:
        MissingDataError: it does not exist.
        InputError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise MissingDataError(f"{path} does not exist") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def read_unpacked(path: Path) -> bytes:
    """Returns a file's contents, decompressed where its name ends in .gz.

    Raises:
        InputError: it cannot be read, or is not gzip, or ends too early.
    """
    contents = read_bytes(path)
    if path.suffix != ".gz":
        return contents
    try:
        return gzip.decompress(contents)
    except _DAMAGE as error:
        raise InputError(f"{path} is damaged; expected a whole gzip file: {error}") from None


def read_tar_members(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """Returns the named files of a tar.gz archive, from any folder in it.

    Raises:
        InputError: it cannot be read, is damaged, or lacks one of the files.
    """
    found: dict[str, bytes] = {}
    contents = read_bytes(path)
    try:
        unpacked = io.BytesIO(gzip.decompress(contents))  # all of it: the checksum is at the end
        with tarfile.open(fileobj=unpacked, mode="r:") as archive:
            for member in archive:
                name = member.name.split("/")[-1]
                if member.isfile() and name in names:
                    found[name] = archive.extractfile(member).read()
    except _DAMAGE as error:
        raise InputError(f"{path} is damaged; expected a whole tar.gz archive: {error}") from None
    for name in names:
        if name not in found:
            raise InputError(f"{path} lacks {name}; expected an archive with {', '.join(names)}")
    return found


def check_labels(labels: Integer[np.ndarray, " n"], num_classes: int, path: Path) -> None:
    """Raises unless all labels are classes.

    Raises:
        InputError: names the file, the first wrong label and what is accepted.
    """
    wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(wrong):
        raise InputError(
            f"{path}: label {wrong[0]} is {labels[wrong[0]]}; expected 0 to {num_classes - 1}"
        )


def read_idx(contents: bytes, path: Path, *, num_axes: int) -> UInt8[np.ndarray, "..."]:
    """Returns the array of an IDX file of bytes, with 3 axes (images) or 1 (labels).

    The format: a magic number (0x0000, type 0x08, number of axes), the length of each axis, all of
    them big-endian 32-bit integers, then the bytes in row-major order.

    Raises:
        InputError: wrong magic number, or not as many bytes as the header announces.
    """
    header = 4 * (1 + num_axes)
    if len(contents) < header:
        raise InputError(f"{path} holds {len(contents)} bytes; expected a header of {header}")
    magic, *shape = np.frombuffer(contents, ">i4", 1 + num_axes).tolist()
    if magic != _IDX_MAGIC[num_axes]:
        raise InputError(
            f"{path} begins with the magic number {magic:#010x}; expected "
            f"{_IDX_MAGIC[num_axes]:#010x}, an IDX file of bytes in {num_axes} axes"
        )
    if min(shape) < 1:
        raise InputError(f"{path} announces an array of {shape}; expected no empty axis")
    expected = header + int(np.prod(shape))
    if len(contents) != expected:
        raise InputError(
            f"{path} holds {len(contents)} bytes; expected {expected} for an array of {shape}"
        )
    return np.frombuffer(contents, np.uint8, offset=header).reshape(shape)


def read_cifar10_batch(
    contents: bytes, path: Path
) -> tuple[UInt8[np.ndarray, "n 32 32 3"], Integer[np.ndarray, " n"]]:
    """Returns images and labels of one file of the binary version of CIFAR-10.

    The format: 10,000 records of a label and the red, green and blue planes, each row by row.

    Raises:
        InputError: the file has another size, or a label is not a class.
    """
    record = 1 + int(np.prod(CIFAR10_SHAPE))
    expected = CIFAR10_BATCH * record
    if len(contents) != expected:
        raise InputError(
            f"{path} holds {len(contents)} bytes; expected {expected}: "
            f"{CIFAR10_BATCH} records of {record} bytes"
        )
    records = np.frombuffer(contents, np.uint8).reshape(CIFAR10_BATCH, record)
    labels = records[:, 0].astype(np.int32)
    check_labels(labels, 10, path)
    planes = records[:, 1:].reshape(-1, *CIFAR10_SHAPE)
    return planes.transpose(0, 2, 3, 1), labels


def read_svhn(
    contents: bytes, path: Path
) -> tuple[UInt8[np.ndarray, "n 32 32 3"], Integer[np.ndarray, " n"]]:
    """Returns images and labels of a MATLAB file of SVHN's cropped digits.

    The format: X [32, 32, 3, n] of bytes, y [n, 1] with 1 to 10, where 10 means the digit 0.

    Raises:
        InputError: not a MATLAB file, X or y is missing or of another shape, or a label is not a
            digit.
    """
    import scipy.io  # here, because it takes as long to import as the rest of this package

    try:
        variables = scipy.io.loadmat(io.BytesIO(contents), variable_names=["X", "y"])
    except Exception as error:  # damaged files raise errors of every kind from inside scipy
        message = f"{path} is damaged; expected a MATLAB 5 file: {type(error).__name__}: {error}"
        raise InputError(one_line(message)) from None
    for name in ("X", "y"):
        if name not in variables:
            raise InputError(f"{path} has no variable {name}; expected X and y of cropped digits")
    images, labels = variables["X"], variables["y"].ravel()
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise InputError(
            f"{path}: X is {images.dtype} of shape {images.shape}; expected uint8 (32, 32, 3, n)"
        )
    if len(labels) != images.shape[3] or not len(labels):
        raise InputError(f"{path}: {len(labels)} labels in y; expected {images.shape[3]}, as in X")
    if labels.dtype.kind not in "iu" or labels.min() < 1 or labels.max() > 10:
        raise InputError(f"{path}: y holds {labels.min()} to {labels.max()}; expected 1 to 10")
    return images.transpose(3, 0, 1, 2), (labels % 10).astype(np.int32)
