"""Data sets come out as they were written, from every layout."""

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from sklearn.datasets import load_digits

from lsa_jax.data import downloads, images
from lsa_jax.data.images import ChecksumWarning
from lsa_jax.errors import InputError

PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def load_small(name, data_dir):
    """Loads files that a test wrote, which are not the published ones."""
    with pytest.warns(ChecksumWarning):
        return images.load(name, data_dir)


def assert_equal_sets(a, b):
    for first, second in zip((*a.train, *a.test), (*b.train, *b.test), strict=True):
        np.testing.assert_array_equal(first, second)


def test_digits_are_all_of_scikit_learns_images_once():
    image_set = images.load("digits")
    bundled = load_digits()
    assert len(image_set.train.inputs) == 1437
    assert len(image_set.test.inputs) == 360
    both = np.concatenate([image_set.train.inputs, image_set.test.inputs])[..., 0]
    labels = np.concatenate([image_set.train.targets, image_set.test.targets])
    rows = {(image.tobytes(), label) for image, label in zip(both * 16, labels, strict=True)}
    expected = bundled.images.astype(np.float32)
    assert rows == {(i.tobytes(), y) for i, y in zip(expected, bundled.target, strict=True)}


@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw"])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_is_the_same_from_every_layout(mnist_dir, folder, packed):
    expected = load_small("mnist", mnist_dir)
    (mnist_dir / "mnist").rename(mnist_dir / "written")
    (mnist_dir / folder).mkdir(parents=True)
    for part in PARTS:
        contents = (mnist_dir / f"written/{part}-ubyte.gz").read_bytes()
        target = mnist_dir / folder / f"{part}-ubyte"
        if packed:
            target.with_suffix(".gz").write_bytes(contents)
        else:
            target.write_bytes(gzip.decompress(contents))
    assert_equal_sets(load_small("mnist", mnist_dir), expected)


def test_cifar10_planes_become_channels(cifar10_dir):
    record = np.fromfile(cifar10_dir / "cifar-10-batches-bin/data_batch_3.bin", np.uint8)[3073:]
    train = load_small("cifar10", cifar10_dir).train
    image = np.rint(train.inputs[2 * 20 + 1] * 255)
    for channel, row, column in [(0, 0, 0), (1, 5, 7), (2, 31, 30)]:
        assert image[row, column, channel] == record[1 + 1024 * channel + 32 * row + column]
    assert train.targets[2 * 20 + 1] == record[0]


def test_svhn_label_10_is_the_digit_0(svhn_dir):
    written = scipy.io.loadmat(svhn_dir / "svhn/test_32x32.mat")
    test = load_small("svhn", svhn_dir).test
    np.testing.assert_array_equal(test.targets, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0])
    np.testing.assert_array_equal(np.rint(test.inputs[9] * 255), written["X"][..., 9])


@pytest.mark.parametrize("from_environment", [True, False])
@pytest.mark.parametrize("name", [name for name in images.NAMES if name != "digits"])
def test_missing_data_in_a_given_folder_is_not_downloaded(
    name, from_environment, tmp_path, monkeypatch
):
    monkeypatch.setattr("pooch.retrieve", lambda *_, **__: pytest.fail("downloads"))
    if from_environment:
        monkeypatch.setenv("LSA_DATA_DIR", str(tmp_path))
    with pytest.raises(InputError) as error:
        images.load(name, None if from_environment else tmp_path)
    message = str(error.value)
    assert str(tmp_path / downloads.DOWNLOADS[name][0].place) in message
    assert f"python -m launch.data --dataset={name} --data_dir={tmp_path}" in message


def test_without_a_data_folder_missing_files_go_to_the_cache(mnist_dir, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    fetched = []

    def retrieve(url, known_hash, fname, path, progressbar):
        fetched.append((url, known_hash))
        path.mkdir(parents=True, exist_ok=True)
        shutil.copy(mnist_dir / "mnist" / fname, path / fname)

    monkeypatch.setattr("pooch.retrieve", retrieve)
    monkeypatch.setattr(downloads, "cache_dir", lambda: cache)
    first = load_small("mnist", None)
    assert fetched == [(d.url, d.checksum) for d in downloads.DOWNLOADS["mnist"]]
    assert_equal_sets(load_small("mnist", None), first)
    assert len(fetched) == 4
    assert_equal_sets(load_small("mnist", mnist_dir), first)


# Real data: read before the environment is cleared for the other tests.

REAL_DIR = os.environ.get("LSA_DATA_DIR")


def real_dir(place):
    """Returns the folder of real data, or skips where it lacks a data set."""
    if not REAL_DIR or not (Path(REAL_DIR) / place).exists():
        pytest.skip(f"needs {place} in LSA_DATA_DIR")
    return Path(REAL_DIR)


@pytest.mark.real_data
def test_real_mnist_has_the_published_bytes_and_counts():
    image_set = images.load("mnist", real_dir("mnist"))  # a changed file would be a warning
    assert image_set.train.inputs.shape == (60_000, 28, 28, 1)
    assert image_set.test.inputs.shape == (10_000, 28, 28, 1)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    np.testing.assert_array_equal(np.bincount(image_set.train.targets), counts)
    np.testing.assert_allclose(image_set.train.inputs.mean(), 0.1307, atol=1e-4)


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore::lsa_jax.data.images.ChecksumWarning")
def test_real_cifar10_has_the_published_counts_and_colours():
    image_set = images.load("cifar10", real_dir("cifar-10-batches-bin"))
    np.testing.assert_array_equal(np.bincount(image_set.train.targets), [5000] * 10)
    np.testing.assert_array_equal(np.bincount(image_set.test.targets), [1000] * 10)
    mean = image_set.train.inputs.mean((0, 1, 2), dtype=np.float64)
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=2e-3)
