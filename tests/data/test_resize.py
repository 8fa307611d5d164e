"""Images are resized by interpolation between the centres of pixels."""

import numpy as np
import pytest

from lsa_jax.data.backgrounds import resize
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


@pytest.mark.parametrize("before, after", [(8, 5), (8, 4), (32, 5), (3, 8), (1, 3), (5, 1)])
def test_resize_interpolates_between_pixel_centres(before, after):
    images = make_images(3, channels=2, size=before)
    expected = [bilinear(image.astype(np.float64), after) for image in images]
    out = resize(images, after)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, expected, atol=1e-6)


def test_resize_in_batches_equals_resize_at_once(monkeypatch):
    images = make_images(17, size=6)
    expected = resize(images, 4)
    monkeypatch.setattr("lsa_jax.data.backgrounds._RESIZE_BATCH", 5)
    np.testing.assert_array_equal(resize(images, 4), expected)


def test_resize_to_the_same_size_returns_the_images():
    images = make_images(2)
    assert resize(images, 4) is images


def test_resize_to_nothing_is_refused():
    with pytest.raises(InputError, match="size is 0; accepted: 1"):
        resize(make_images(2), 0)
