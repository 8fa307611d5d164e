"""Damage to a data set is one line that names the file."""

import gzip
import shutil
import tarfile

import numpy as np
import pytest
import scipy.io

from lsa_jax.data import images
from lsa_jax.errors import InputError, MissingDataError


def repack(change):
    return lambda contents: gzip.compress(change(gzip.decompress(contents)))


def with_byte(position, value):
    return lambda contents: contents[:position] + bytes([value]) + contents[position + 1 :]


IMAGES, LABELS = "mnist/train-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"
BATCH = "cifar-10-batches-bin/data_batch_2.bin"
MAT = "svhn/train_32x32.mat"

DAMAGE = {
    "magic number of images": (
        "mnist",
        IMAGES,
        repack(with_byte(3, 4)),
        ["0x00000804", "0x00000803"],
    ),
    "labels where images belong": ("mnist", IMAGES, repack(with_byte(3, 1)), ["0x00000801"]),
    "magic number of labels": ("mnist", LABELS, repack(with_byte(2, 9)), ["0x00000901"]),
    "truncated images": ("mnist", IMAGES, repack(lambda c: c[:-1]), ["15695", "15696"]),
    "trailing bytes": ("mnist", LABELS, repack(lambda c: c + b"\0"), ["19", "18"]),
    "header alone, cut": ("mnist", IMAGES, repack(lambda c: c[:9]), ["9 bytes", "16"]),
    "empty file": ("mnist", LABELS, repack(lambda c: b""), ["0 bytes"]),
    "negative size": ("mnist", IMAGES, repack(with_byte(4, 255)), ["[-"]),
    "no images": ("mnist", LABELS, repack(lambda c: c[:7] + b"\0"), ["[0]"]),
    "wrong image size": (
        "mnist",
        IMAGES,
        repack(lambda c: c[:8] + bytes([0, 0, 0, 14, 0, 0, 0, 56]) + c[16:]),
        ["14 x 56", "28 x 28"],
    ),
    "fewer labels": (
        "mnist",
        LABELS,
        repack(lambda c: c[:7] + b"\x09" + c[8:-1]),
        ["9 labels", "10", "t10k-images"],
    ),
    "label 10 in MNIST": ("mnist", LABELS, repack(with_byte(8, 10)), ["label 0 is 10", "0 to 9"]),
    "not gzip": ("mnist", IMAGES, lambda c: b"<html>" + c, ["gzip"]),
    "gzip cut short": ("mnist", IMAGES, lambda c: c[:-100], ["gzip"]),
    "gzip with wrong sum": ("mnist", IMAGES, lambda c: c[:-8] + bytes(4) + c[-4:], ["gzip"]),
    "truncated batch": ("cifar10", BATCH, lambda c: c[:-3073], ["58387", "61460", "20 records"]),
    "label 11 in CIFAR-10": ("cifar10", BATCH, with_byte(3073, 11), ["label 1 is 11", "0 to 9"]),
    "not MATLAB": ("svhn", MAT, lambda c: b"<html>" * 100, ["MATLAB"]),
    "empty MATLAB": ("svhn", MAT, lambda c: b"", ["MATLAB"]),
    "MATLAB cut short": ("svhn", MAT, lambda c: c[: len(c) // 2], ["MATLAB"]),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_one_line_that_names_the_file(case, request):
    name, file, change, words = DAMAGE[case]
    data_dir = request.getfixturevalue(f"{name}_dir")
    path = data_dir / file
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError) as error:
        images.load(name, data_dir)
    message = str(error.value)
    assert "\n" not in message
    for word in [str(path), "expected", *words]:
        assert word in message, message


@pytest.mark.parametrize("file", [IMAGES, LABELS, "cifar-10-binary.tar.gz"])
def test_bits_flipped_anywhere_and_cuts_anywhere_are_one_line_or_change_nothing(file, request):
    name = "mnist" if file.startswith("mnist") else "cifar10"
    data_dir = request.getfixturevalue(f"{name}_dir")
    path = data_dir / file
    if name == "cifar10":
        with tarfile.open(path, "w:gz") as archive:
            archive.add(data_dir / "cifar-10-batches-bin", "cifar-10-batches-bin")
        shutil.rmtree(data_dir / "cifar-10-batches-bin")
    content, random = path.read_bytes(), np.random.default_rng(0)
    expected, _ = images.read(name, data_dir)
    refused = 0
    for position in random.integers(len(content), size=40).tolist():
        flipped = content[position] ^ (1 << int(random.integers(8)))
        for damaged in (with_byte(position, flipped)(content), content[:position]):
            path.write_bytes(damaged)
            try:
                found, _ = images.read(name, data_dir)
            except InputError as error:
                assert str(path) in str(error) and "\n" not in str(error)
                refused += 1
            else:  # as where the time of packing was hit
                parts = zip(
                    (*found.train, *found.test), (*expected.train, *expected.test), strict=True
                )
                for first, second in parts:
                    np.testing.assert_array_equal(first, second)
    assert refused > 60


def digits(count=4):
    return {
        "X": np.zeros((32, 32, 3, count), np.uint8),
        "y": np.ones((count, 1), np.uint8),
    }


WRONG_MAT = {
    "no X": ({"y": digits()["y"]}, ["no variable X"]),
    "no y": ({"X": digits()["X"]}, ["no variable y"]),
    "float pixels": (digits() | {"X": digits()["X"] / 255}, ["float64", "uint8"]),
    "axes in another order": (digits() | {"X": digits()["X"].transpose(3, 0, 1, 2)}, ["(4, 32,"]),
    "fewer labels": (digits() | {"y": digits(3)["y"]}, ["3 labels", "4"]),
    "label 0": (digits() | {"y": np.array([[1], [2], [3], [0]])}, ["0 to 3", "1 to 10"]),
    "label 11": (digits() | {"y": np.array([[1], [2], [3], [11]])}, ["1 to 11", "1 to 10"]),
    "labels of floats": (digits() | {"y": np.full((4, 1), 0.5)}, ["1 to 10"]),
}


@pytest.mark.parametrize("case", WRONG_MAT)
def test_matlab_file_of_something_else_is_one_line(case, svhn_dir):
    variables, words = WRONG_MAT[case]
    path = svhn_dir / "svhn/test_32x32.mat"
    scipy.io.savemat(path, variables)
    with pytest.raises(InputError) as error:
        images.load("svhn", svhn_dir)
    for word in [str(path), *words]:
        assert word in str(error.value), str(error.value)


def test_missing_batch_is_named(cifar10_dir):
    path = cifar10_dir / "cifar-10-batches-bin/data_batch_4.bin"
    path.unlink()
    # Data that are there in part are not missing: fetching them would leave the folder as it is.
    with pytest.raises(InputError, match="lacks data_batch_4.bin; .* or remove") as error:
        images.load("cifar10", cifar10_dir)
    assert not isinstance(error.value, MissingDataError)


@pytest.mark.parametrize(
    "contents, words", [(b"<html>", "tar.gz"), (None, "lacks data_batch_1.bin")]
)
def test_wrong_archive_is_named(contents, words, tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    if contents is None:
        with tarfile.open(path, "w:gz") as archive:
            archive.add(__file__, "cifar-10-batches-bin/readme.html")
    else:
        path.write_bytes(contents)
    with pytest.raises(InputError, match=f"{path}.*{words}"):
        images.load("cifar10", tmp_path)


def test_archive_cut_short_is_named(cifar10_dir):
    path = cifar10_dir / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(cifar10_dir / "cifar-10-batches-bin", "cifar-10-batches-bin")
    shutil.rmtree(cifar10_dir / "cifar-10-batches-bin")
    path.write_bytes(path.read_bytes()[:200_000])
    with pytest.raises(InputError, match=f"{path}.*tar.gz"):
        images.load("cifar10", cifar10_dir)


def test_unreadable_file_is_named(mnist_dir):
    path = mnist_dir / IMAGES
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=f"{path} cannot be read: Is a directory"):
        images.load("mnist", mnist_dir)
