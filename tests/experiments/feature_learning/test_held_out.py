"""Numbers of test images are those of the data sets."""

import os
from pathlib import Path

import numpy as np
import pytest

from lsa_jax.data import images
from lsa_jax.errors import MissingDataError
from lsa_jax.experiments.feature_learning.held_out import HeldOut, held_out


def test_digits_by_class_are_those_of_the_data_set():
    check("digits", None)


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore::lsa_jax.data.images.ChecksumWarning")
@pytest.mark.parametrize("name", ["mnist", "cifar10", "svhn"])
def test_test_images_by_class_are_those_of_the_data_set(name):
    directory = os.environ.get("LSA_DATA_DIR")
    if not directory:
        pytest.skip("needs LSA_DATA_DIR")
    try:
        check(name, Path(directory))
    except MissingDataError as error:
        pytest.skip(str(error))


def check(name, directory):
    labels = np.asarray(images.load(name, directory).test.targets)
    counts = np.bincount(labels)
    assert held_out(name) == (counts.sum(), counts.max() / counts.sum())
    for pair in ((0, 1), (8, 3)):
        kept = counts[list(pair)]
        assert held_out(name, pair) == (kept.sum(), kept.max() / kept.sum())


def test_no_more_images_are_taken_than_there_are():
    assert held_out("digits", (0, 1), 10) == HeldOut(10, 0.5)
    assert held_out("digits", (0, 1), 10_000) == HeldOut(72, 0.5)
    assert held_out("svhn").images == 26_032
