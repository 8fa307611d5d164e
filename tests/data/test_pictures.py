"""Photographs, folders of classes and tiny ImageNet are read as they were written."""

import shutil
import zipfile

import numpy as np
import pytest
from PIL import Image

from lsa_jax.data import images, photographs
from lsa_jax.data.images import ChecksumWarning
from lsa_jax.errors import InputError


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.mark.parametrize("height, width", [(8, 13), (14, 8), (8, 8)])
def test_photograph_of_the_right_height_is_only_cut_at_the_centre(height, width, tmp_path):
    pixels = noise(height, width)
    save(tmp_path / "a.png", pixels)
    top, left = (height - 8) // 2, (width - 8) // 2
    expected = pixels[top : top + 8, left : left + 8] / np.float32(255)
    np.testing.assert_array_equal(photographs(tmp_path, 8)[0], expected)


def values(dataset):
    """Returns the colour of pictures of one colour."""
    assert (dataset.inputs == dataset.inputs[:, :1, :1, :1]).all()
    return np.rint(dataset.inputs[:, 0, 0, 0] * 255)


def test_folder_without_a_test_set_gives_every_fifth(folder_dir):
    image_set = images.load("pets", folder_dir)
    assert image_set.class_names == ("cat", "dog")
    assert image_set.train.inputs.shape == (12, 4, 6, 3)
    np.testing.assert_array_equal(values(image_set.test), [0, 5, 0])
    np.testing.assert_array_equal(image_set.test.targets, [0, 0, 1])
    np.testing.assert_array_equal(values(image_set.train), [1, 2, 3, 4, 6, 7, 8, 9, 1, 2, 3, 4])
    np.testing.assert_array_equal(image_set.train.targets, [0] * 8 + [1] * 4)
    assert image_set.train.targets.dtype == np.int32


def class_in_one_part(folder):
    for part in ("train", "test"):
        (folder / part).mkdir()
        for name in ("cat", "dog"):
            shutil.copytree(folder / name, folder / part / name)
    shutil.copytree(folder / "cat", folder / "test/bird")


def other_size(folder):
    save(folder / "dog/02.png", noise(4, 5))


def loose(folder):
    save(folder / "loose.png", noise(4, 6))


BAD_FOLDER = [
    (class_in_one_part, "pets has class bird in only one of train and test"),
    (other_size, "02.png has 5 x 4 pixels; expected 6 x 4, as .*00.png"),
    (loose, "loose.png lies in no class"),
]


@pytest.mark.parametrize(
    "change, message", BAD_FOLDER, ids=lambda case: getattr(case, "__name__", "")
)
def test_folder_that_is_no_set_of_classes_is_one_line(change, message, folder_dir):
    change(folder_dir / "pets")
    with pytest.raises(InputError, match=f"{folder_dir}.*{message}"):
        images.load("pets", folder_dir)


# Tiny ImageNet.


def test_tiny_imagenet_takes_its_validation_part_as_test_set(tiny_imagenet_dir):
    with pytest.warns(ChecksumWarning, match="tiny-imagenet-200.zip:"):
        image_set = images.load("tiny_imagenet", tiny_imagenet_dir)
    assert image_set.class_names == ("n01", "n02")
    assert image_set.train.inputs.shape == (1000, 64, 64, 3)
    assert image_set.test.inputs.shape == (100, 64, 64, 3)
    np.testing.assert_array_equal(values(image_set.train), 100 * image_set.train.targets)
    np.testing.assert_array_equal(values(image_set.test), 100 * image_set.test.targets + 50)
    np.testing.assert_array_equal(np.bincount(image_set.train.targets), [500, 500])


def test_tiny_imagenet_unpacked_equals_zipped(tiny_imagenet_dir):
    zipped, _ = images.read("tiny_imagenet", tiny_imagenet_dir)
    unpack(tiny_imagenet_dir)
    unpacked, (file,) = images.read("tiny_imagenet", tiny_imagenet_dir)
    assert file.as_published is None
    for a, b in zip((*zipped.train, *zipped.test), (*unpacked.train, *unpacked.test), strict=True):
        np.testing.assert_array_equal(a, b)


BAD_TINY = {
    "picture missing": (lambda d: (d / "train/n02/images/n02_7.JPEG").unlink(), "499.*n02.*500"),
    "class not listed": (lambda d: (d / "wnids.txt").write_text("n01\n"), "n02.*wnids.txt"),
    "other size": (lambda d: save(d / "train/n01/images/n01_3.JPEG", noise(4, 4)), "4 x 4 pixels"),
}


@pytest.mark.parametrize("case", BAD_TINY)
def test_incomplete_tiny_imagenet_is_one_line(case, tiny_imagenet_dir):
    change, message = BAD_TINY[case]
    change(unpack(tiny_imagenet_dir))
    with pytest.raises(InputError, match=f"{tiny_imagenet_dir}/tiny-imagenet-200.*{message}"):
        images.load("tiny_imagenet", tiny_imagenet_dir)


def damage_member(contents):
    """Flips a byte of the first member's data, so that its checksum is wrong."""
    position = contents.index(b"n02\nn01")
    return contents[:position] + b"x" + contents[position + 1 :]


BAD_ZIP = {
    "not zip": (lambda c: b"<html>", "expected a whole zip archive"),
    "cut short": (lambda c: c[: len(c) // 2], "expected a whole zip archive"),
    "damaged member": (damage_member, "wnids.txt is damaged"),
}


@pytest.mark.parametrize("case", BAD_ZIP)
def test_damaged_zip_is_one_line(case, tiny_imagenet_dir):
    change, message = BAD_ZIP[case]
    path = tiny_imagenet_dir / "tiny-imagenet-200.zip"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=f"{path}.*{message}"):
        images.load("tiny_imagenet", tiny_imagenet_dir)


def unpack(data_dir):
    with zipfile.ZipFile(data_dir / "tiny-imagenet-200.zip") as archive:
        archive.extractall(data_dir)
    (data_dir / "tiny-imagenet-200.zip").unlink()
    return data_dir / "tiny-imagenet-200"


@pytest.mark.usefixtures("unchecked")
def test_a_synset_that_is_no_collection_of_ids_is_refused(tmp_path):
    for synset in ("n00017222", ()):
        with pytest.raises(InputError, match="^synset is .*; accepted: a collection"):
            photographs(tmp_path, 8, synset)


def test_a_fit_that_does_not_exist_is_refused_with_and_without_a_size(tmp_path):
    for size in (None, 4):
        with pytest.raises(InputError, match="^fit is 'stretch'; accepted"):
            images.load_folder("any", tmp_path, size=size, fit="stretch")
