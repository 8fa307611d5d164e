"""Places and numbers of stars."""

import numpy as np

from lsa_jax.data import stars
from lsa_jax.data.backgrounds import Composition, compose


def test_in_32_pixels_a_star_has_18_places_each_way_with_as_much_room_as_in_its_picture(key):
    picture = stars.star()
    place = Composition(stars.SIDE, 32, "random_location", "none", transparent=True)
    composed = compose(place, key, np.stack([picture] * 400), np.arange(400), 0, noise=0.0)
    ink = np.asarray(composed)[..., 0] == 1
    for axis, first, last in ((2, 3, 3 + 17), (1, 7, 7 + 17)):
        starts = ink.any(axis).argmax(1)  # of the first row, or column, with ink
        assert set(starts) == set(range(first, last + 1))


def test_25_training_and_500_test_pictures_of_either_kind():
    images = stars.image_set()
    assert images.class_names == ("nothing", "star")
    for split, count in ((images.train, 25), (images.test, 500)):
        labels = np.asarray(split.targets)
        assert labels.dtype == np.int32 and np.bincount(labels).tolist() == [count, count]
        assert not split.inputs[labels == 0].any()
        np.testing.assert_array_equal(split.inputs[labels == 1], [stars.star()] * count)
