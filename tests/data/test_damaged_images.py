"""Damage to a data set is one line that names the file."""

import gzip
import shutil
import tarfile

import numpy as np
import pytest

from lsa_jax.data import images
from lsa_jax.errors import InputError


def repack(change):
    return lambda contents: gzip.compress(change(gzip.decompress(contents)))


def with_byte(position, value):
    return lambda contents: contents[:position] + bytes([value]) + contents[position + 1 :]


IMAGES, LABELS = "mnist/train-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"
BATCH = "cifar-10-batches-bin/data_batch_2.bin"
MAT = "svhn/train_32x32.mat"

DAMAGE = {
    "magic number of images": ("mnist", IMAGES, repack(with_byte(3, 4))),
    "wrong image size": (
        "mnist",
        IMAGES,
        repack(lambda c: c[:8] + bytes([0, 0, 0, 14, 0, 0, 0, 56]) + c[16:]),
    ),
    "fewer labels": ("mnist", LABELS, repack(lambda c: c[:7] + b"\x09" + c[8:-1])),
    "label 10 in MNIST": ("mnist", LABELS, repack(with_byte(8, 10))),
    "label 11 in CIFAR-10": ("cifar10", BATCH, with_byte(3073, 11)),
    "not MATLAB": ("svhn", MAT, lambda c: b"<html>" * 100),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_one_line_that_names_the_file(case, request):
    name, file, change = DAMAGE[case]
    data_dir = request.getfixturevalue(f"{name}_dir")
    path = data_dir / file
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match="expected") as error:
        images.load(name, data_dir)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


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
