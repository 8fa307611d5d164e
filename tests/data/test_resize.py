"""Smaller images are means of areas, larger ones are interpolated between centres of pixels."""

import numpy as np
import pytest

from lsa_jax.data import resize
from lsa_jax.errors import InputError


def make_images(count, channels=1, size=4):
    rng = np.random.default_rng(0)
    return rng.uniform(0.1, 1, (count, size, size, channels)).astype(np.float32)


def bilinear(image, size):
    """Interpolates between the centres of pixels, one output pixel at a time."""
    out = np.empty((size, size, image.shape[2]))
    positions = [
        np.clip((np.arange(size) + 0.5) * length / size - 0.5, 0, length - 1)
        for length in image.shape[:2]
    ]
    for i, y in enumerate(positions[0]):
        for j, x in enumerate(positions[1]):
            top, left = int(y), int(x)
            bottom, right = min(top + 1, image.shape[0] - 1), min(left + 1, image.shape[1] - 1)
            v, u = y - top, x - left
            out[i, j] = (1 - v) * ((1 - u) * image[top, left] + u * image[top, right]) + v * (
                (1 - u) * image[bottom, left] + u * image[bottom, right]
            )
    return out


def means_of_areas(image, size):
    """Averages areas that are made whole pixels by repeating each pixel `size` times."""
    height, width, channels = image.shape
    fine = image.repeat(size, 0).repeat(size, 1)
    return fine.reshape(size, height, size, width, channels).mean((1, 3))


@pytest.mark.parametrize("before, after", [(3, 8), (1, 3), (8, 13)])
def test_larger_images_are_interpolated_between_pixel_centres(before, after):
    images = make_images(3, channels=2, size=before)
    expected = [bilinear(image.astype(np.float64), after) for image in images]
    out = resize(images, after)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, expected, atol=1e-6)


@pytest.mark.parametrize("before, after", [(8, 4), (8, 5), (32, 5), (5, 1), (64, 32), (3, 2)])
def test_smaller_images_are_means_of_areas(before, after):
    images = make_images(3, channels=2, size=before)
    expected = [means_of_areas(image.astype(np.float64), after) for image in images]
    np.testing.assert_allclose(resize(images, after), expected, atol=1e-6)


@pytest.mark.parametrize("fit", ["crop", "pad", "squash"])
@pytest.mark.parametrize("shape", [(6, 10), (9, 4), (5, 5)])
def test_images_become_square_as_asked(shape, fit):
    images = np.random.default_rng(0).uniform(0.1, 1, (2, *shape, 3))
    height, width = shape
    short, long = min(shape), max(shape)
    if fit == "crop":
        top, left = (height - short) // 2, (width - short) // 2
        squares = images[:, top : top + short, left : left + short]
    elif fit == "pad":
        squares = np.zeros((2, long, long, 3))
        top, left = (long - height) // 2, (long - width) // 2
        squares[:, top : top + height, left : left + width] = images
    else:
        squares = images
    expected = [means_of_areas(image, 3) for image in squares]
    np.testing.assert_allclose(resize(images, 3, fit), expected, atol=1e-6)


@pytest.mark.parametrize("wrong", [{"size": 0}, {"fit": "stretch"}])
def test_other_sizes_and_fits_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} is"):
        resize(make_images(2), **{"size": 2} | wrong)
