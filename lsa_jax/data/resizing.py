"""Pictures as squares of one size: cropped, padded or squashed, and shrunk by averaging."""

import functools

import numpy as np
from jaxtyping import Array, Float

from lsa_jax.arrays import real_array
from lsa_jax.checks import integer, one_of, require
from lsa_jax.errors import InputError

FITS = ("crop", "pad", "squash")


@functools.lru_cache(maxsize=64)
def _weights(before: int, after: int) -> Float[np.ndarray, "after before"]:
    """Returns the share of each pixel of a line in each pixel of the resized line."""
    weights = np.zeros((after, before))
    if after < before:
        edges = np.arange(after + 1) * before / after
        pixels = np.arange(before)
        first, last = np.maximum.outer(edges[:-1], pixels), np.minimum.outer(edges[1:], pixels + 1)
        weights = np.maximum(last - first, 0) * after / before
    else:
        centres = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
        left = np.minimum(centres.astype(int), max(before - 2, 0))
        weights[np.arange(after), left] = 1 - (centres - left)
        weights[np.arange(after), np.minimum(left + 1, before - 1)] += centres - left
    return weights.astype(np.float32)


def resize_one(image: Float[np.ndarray, "h w c"], size: int) -> Float[np.ndarray, "size size c"]:
    """Resizes one image, each side by itself: averages where it shrinks, interpolates elsewhere."""
    height, width, channels = image.shape
    rows = (_weights(height, size) @ image.reshape(height, -1)).reshape(size, width, channels)
    return np.matmul(_weights(width, size), rows)


def square(images: np.ndarray, fit: str) -> np.ndarray:
    """Returns images [..., h, w, c] of one size as squares; unchanged for "squash".

    "crop" takes the largest square at the centre, "pad" adds black on both sides.
    """
    height, width = images.shape[-3:-1]
    if fit == "crop":
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        return images[..., top : top + side, left : left + side, :]
    if fit == "pad":
        rows, columns = max(width - height, 0), max(height - width, 0)
        sides = [(rows // 2, rows - rows // 2), (columns // 2, columns - columns // 2)]
        return np.pad(images, [(0, 0)] * (images.ndim - 3) + [*sides, (0, 0)])
    return images


def check(size: int, fit: str) -> None:
    """Checks the size and the fit of squares.

    Raises:
        InputError: the size is not positive, or there is no such fit.
    """
    if not integer(1).accepts(size):
        raise InputError(f"size is {size!r}; accepted: 1 pixel or more")
    require("fit", fit, one_of(*FITS))


def resize(
    images: Float[Array | np.ndarray, "n h w c"], size: int, fit: str = "crop"
) -> Float[Array | np.ndarray, "n size size c"]:
    """Resizes images of one size to squares, by averages over areas where they shrink.

    A pixel of a smaller image is the mean of the area that it covers, weighted by the covered parts
    of pixels. Larger images are interpolated bilinearly between the centres of pixels. "crop" takes
    the largest square at the centre, "pad" adds black on both sides, "squash" changes the
    proportions.

    Returns:
        float32 images in the host's memory; `images` itself where it has that size already.

    Raises:
        InputError: no images, a size that is not positive, or an unknown `fit`.
    """
    check(size, fit)
    images = real_array("images", images, "n h w c")
    if images.shape[1:3] == (size, size):
        return images
    resized = np.empty((len(images), size, size, images.shape[3]), np.float32)
    # One by one: products of a batch are rounded by its size, and an image must not depend on it.
    for row, image in zip(resized, square(np.asarray(images), fit), strict=True):
        row[:] = resize_one(image.astype(np.float32, copy=False), size)
    return resized
