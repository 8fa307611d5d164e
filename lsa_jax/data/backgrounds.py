"""Images pasted at random places on noisy backgrounds.

Karp et al. (NeurIPS 2021), section 6; thesis, appendix B.3. An image of side a is pasted on a
background of side b. Draws for an example are a function of a key and of the example's own number:
they depend neither on its batch, nor its place there, nor the number of devices. The noise level
only scales the draws.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, Key

from lsa_jax.arrays import random_key, real_array
from lsa_jax.checks import boolean, integer, number, one_of, require
from lsa_jax.data.dataset import in_32_bits
from lsa_jax.errors import InputError

PLACEMENTS = ("random_location", "random_corner", "fixed_corner")
BACKGROUNDS = ("gaussian", "photographs", "distractors", "none")


@dataclass(frozen=True)
class Composition:
    """Settings of images on backgrounds; hashable, so that jit can take it as static.

    Attributes:
        image_size: a, side of the image in pixels.
        background_size: b, side of the background.
        placement: of the image's top left pixel. "random_location": uniform over the
            (b - a + 1)^2 positions; "random_corner": uniform over the four corners;
            "fixed_corner": the bottom right corner.
        background: "gaussian": independent N(0, noise^2) for each pixel and channel;
            "photographs": one of the pool, times noise; "distractors": 2 x 2 images of the
            pool, times noise, with the image in place of one of them; "none": black.
        fresh: whether placement and background (and noise on the image) are drawn again every
            epoch, or once for each example.
        transparent: whether the background shows where the image is black.

    Raises:
        InputError: the settings are not accepted, or do not fit together.
    """

    image_size: int
    background_size: int
    placement: str
    background: str
    fresh: bool = False
    transparent: bool = False

    def __post_init__(self):
        a, b = self.image_size, self.background_size
        require("image_size", a, integer(1))
        require("background_size", b, integer(1))
        if b < a:
            raise InputError(f"image_size is {a}; accepted: at most background_size, which is {b}")
        require("placement", self.placement, one_of(*PLACEMENTS))
        require("background", self.background, one_of(*BACKGROUNDS))
        require("fresh", self.fresh, boolean())
        require("transparent", self.transparent, boolean())
        if self.background == "distractors" and b != 2 * a:
            raise InputError(
                f"background_size is {b}; accepted for distractors: {2 * a}, two images of {a}"
            )
        if self.background == "distractors" and self.placement == "random_location":
            raise InputError(
                "placement is 'random_location'; accepted for distractors: random_corner, "
                "fixed_corner"
            )

    @property
    def pool_size(self) -> int | None:
        """Side of the images in the pool; None without a pool."""
        return {"photographs": self.background_size, "distractors": self.image_size}.get(
            self.background
        )


def _paste(
    composition: Composition,
    key: Key[Array, ""],
    image: Float[Array, "a a c"],
    behind: Float[Array, "b b c"],
    black: Bool[Array, "a a c"],
) -> Float[Array, "b b c"]:
    """Pastes an image at a drawn place; the background may show through where it is black."""
    span = composition.background_size - composition.image_size
    match composition.placement:
        case "random_location":
            row, column = jax.random.randint(key, (2,), 0, span + 1, jnp.int32)
        case "random_corner":
            corner = jax.random.bernoulli(key, jnp.float32(0.5), (2,))
            row, column = span * corner.astype(jnp.int32)
        case _:
            # Written out: an update at a constant place makes XLA draw the noise on one core only.
            if composition.transparent:
                image = jnp.where(black, behind[span:, span:], image)
            lower = jnp.concatenate([behind[span:, :span], image], axis=1)
            return jnp.concatenate([behind[:span], lower], axis=0)
    start = (row, column, jnp.int32(0))
    if composition.transparent:
        image = jnp.where(black, jax.lax.dynamic_slice(behind, start, image.shape), image)
    return jax.lax.dynamic_update_slice(behind, image, start)


def _background(
    composition: Composition,
    key: Key[Array, ""],
    channels: int,
    pool: Float[Array, "m h w c"] | None,
) -> Float[Array, "b b c"]:
    """Draws one background of unit noise."""
    b = composition.background_size
    match composition.background:
        case "gaussian":
            return jax.random.normal(key, (b, b, channels), jnp.float32)
        case "photographs":
            return pool[jax.random.randint(key, (), 0, len(pool), jnp.int32)]
        case "distractors":
            grid = pool[jax.random.randint(key, (2, 2), 0, len(pool), jnp.int32)]
            return grid.transpose(0, 2, 1, 3, 4).reshape(b, b, channels)
        case _:
            return jnp.zeros((b, b, channels), jnp.float32)


@functools.partial(jax.jit, static_argnames=("composition",))
def _compose(composition, key, images, index, epoch, noise, image_noise, pool):
    if composition.fresh:
        key = jax.random.fold_in(key, epoch)

    def compose_one(
        image: Float[Array, "a a c"], index: Integer[Array, ""]
    ) -> Float[Array, "b b c"]:
        placement, background, own = jax.random.split(jax.random.fold_in(key, index), 3)
        black = image == 0
        if image_noise is not None:
            image = image + image_noise * jax.random.normal(own, image.shape, jnp.float32)
        behind = noise * _background(composition, background, image.shape[-1], pool)
        return _paste(composition, placement, image, behind, black)

    return jax.vmap(compose_one)(images, index)


def _check_shapes(
    composition: Composition, images: Array | np.ndarray, pool: Array | np.ndarray | None
) -> None:
    a, side = composition.image_size, composition.pool_size
    if images.ndim != 4 or images.shape[1:3] != (a, a):
        raise InputError(f"images have shape {images.shape}; accepted: (n, {a}, {a}, channels)")
    if side is None and pool is not None:
        raise InputError(
            f"pool is given, but background {composition.background!r} takes none; accepted: None"
        )
    expected = (side, side, images.shape[3])
    if side is not None and (pool is None or pool.shape[1:] != expected or not len(pool)):
        raise InputError(
            f"pool {'is None' if pool is None else f'has shape {pool.shape}'}; accepted for "
            f"background {composition.background!r}: (m, {side}, {side}, {images.shape[3]})"
        )


def _whole(name: str, value: Any, axes: str) -> Integer[Array | np.ndarray, "..."]:
    """Returns an argument as integers."""
    array = real_array(name, value, axes)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise InputError(f"{name} holds {array.dtype}; accepted: whole numbers")
    return in_32_bits(name, array)


def _level(name: str, value: Any) -> Float[Array | np.ndarray, ""]:
    """Returns a level of noise, checked where it is known."""
    level = real_array(name, value, "")
    if not isinstance(level, jax.core.Tracer):
        require(name, float(level), number(0))
    return level


def compose(
    composition: Composition,
    key: Key[Array, ""],
    images: Float[Array | np.ndarray, "n a a c"],
    index: Integer[Array | np.ndarray, " n"],
    epoch: int | Integer[Array | np.ndarray, ""],
    *,
    noise: float | Float[Array | np.ndarray, ""],
    image_noise: float | Float[Array | np.ndarray, ""] = 0.0,
    pool: Float[Array | np.ndarray, "m s s _"] | None = None,
) -> Float[Array, "n b b c"]:
    """Pastes each image on a background of its own.

    Pixels are neither clipped nor normalised. Works under jit, vmap (over keys, noise, ...) and
    scan, with `composition` as a static argument.

    Args:
        composition: sizes, placement, kind of background, fixed or fresh.
        key: of the data set and split; of the default generator, whose draws do not depend on how
            examples are batched.
        images: pixels in [0, 1].
        index: each example's number in its split; its draws depend only on the key, this number
            and, if fresh, the epoch.
        epoch: counts passes over the data; matters only to fresh compositions.
        noise: standard deviation of a Gaussian background, or the intensity, in [0, 1], that
            multiplies photographs and distractors.
        image_noise: standard deviation of Gaussian noise added to the image itself. Nothing is
            drawn where it is the number 0.
        pool: images to draw backgrounds from, with replacement: photographs [m, b, b, c] or
            distractors [m, a, a, c]; None for other backgrounds.

    Returns:
        float32 images of side b.

    Raises:
        InputError: images or pool do not have the composition's shape, another array is not
            accepted, or the key is of a generator whose draws depend on the batch.
    """
    images = real_array("images", images, "n h w c")
    pool = None if pool is None else real_array("pool", pool, "m h w c")
    _check_shapes(composition, images, pool)
    index, epoch = _whole("index", index, "n"), _whole("epoch", epoch, "")
    if len(index) != len(images):
        raise InputError(f"index has {len(index)} entries; accepted: one an image, {len(images)}")
    noise = _level("noise", noise)
    key = random_key("key", key)
    if str(jax.random.key_impl(key)) != "threefry2x32":
        raise InputError(
            f"key is of generator {jax.random.key_impl(key)}, whose draws depend on the batch; "
            "accepted: threefry2x32"
        )
    untouched = isinstance(image_noise, int | float) and image_noise == 0
    return _compose(
        composition,
        key,
        jnp.asarray(images, jnp.float32),
        jnp.asarray(index),
        epoch,
        jnp.asarray(noise, jnp.float32),
        None if untouched else jnp.asarray(_level("image_noise", image_noise), jnp.float32),
        None if pool is None else jnp.asarray(pool, jnp.float32),
    )
