"""What layers that look at windows of an image accept."""

from jaxtyping import Array

from lsa_jax._convolution import Padding
from lsa_jax.checks import Kind, integer, one_of, require
from lsa_jax.errors import InputError
from lsa_jax.models.layers.base import shape_of

_PAIR = Kind(
    lambda pair: isinstance(pair, tuple) and len(pair) == 2 and all(map(integer(1).accepts, pair)),
    "a pair of whole numbers, each 1 or more",
    tuple,
)


def check_windows(
    kind: str, window: tuple[int, int], strides: tuple[int, int], padding: Padding
) -> None:
    """Raises InputError unless a layer of this kind can have such windows."""
    require(f"{kind}.window", window, _PAIR)
    require(f"{kind}.strides", strides, _PAIR)
    require(f"{kind}.padding", padding, one_of("VALID", "SAME"))


def check_images(kind: str, x: Array) -> None:
    """Raises InputError unless a layer of this kind meets images."""
    if x.ndim != 4:
        raise InputError(
            f"{kind} meets inputs {shape_of(x)}; accepted: [n, height, width, channels]"
        )


def check_fits(kind: str, x: Array, window: tuple[int, int], padding: Padding) -> None:
    """Raises InputError unless a window fits into the images."""
    check_images(kind, x)
    if padding == "VALID" and (x.shape[1] < window[0] or x.shape[2] < window[1]):
        raise InputError(
            f"images are {x.shape[1]} x {x.shape[2]} where {kind} has windows of "
            f"{window[0]} x {window[1]}; accepted: larger inputs, or padding='SAME'"
        )
