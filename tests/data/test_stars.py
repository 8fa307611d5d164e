"""The star as it is drawn, and how many there are."""

import numpy as np

from lsa_jax.data import stars


def test_a_star_is_ones_in_two_of_three_channels_with_room_for_18_places_in_32_pixels():
    picture = stars.star()
    assert picture.dtype == np.float32 and picture.shape == (15, 15, 3) and 32 - 15 + 1 == 18
    assert set(np.unique(picture)) == {0.0, 1.0} and not picture[..., 2].any()
    np.testing.assert_array_equal(picture[..., 0], picture[..., 1])
    shape = picture[..., 0]
    # A star of five points: its rows, from the top, are symmetric and of so many pixels.
    rows, columns = np.nonzero(shape.any(1))[0], np.nonzero(shape.any(0))[0]
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (3, 9, 7, 13)
    inside = shape[3:10, 7:14]
    np.testing.assert_array_equal(inside, inside[:, ::-1])
    assert inside.sum(1).tolist() == [1, 3, 7, 5, 3, 5, 4]


def test_25_training_and_500_test_pictures_of_either_kind():
    images = stars.image_set()
    assert images.class_names == ("nothing", "star")
    for split, count in ((images.train, 25), (images.test, 500)):
        labels = np.asarray(split.targets)
        assert np.bincount(labels).tolist() == [count, count]
        assert not split.inputs[labels == 0].any()
        np.testing.assert_array_equal(split.inputs[labels == 1], [stars.star()] * count)
