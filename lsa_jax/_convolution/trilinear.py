"""Convolution and its derivatives on a CPU, each as the one form that XLA is fast at in loops.

With images x, filters w and outputs y, sum(y * convolution(x, w)) is linear in each of the three.
Its derivative by y is the convolution, by x and by w are what backpropagation needs, and any
derivative of one of the three is another of them: so they are closed under differentiation, to any
order. XLA brings a convolution to the form that its CPU library computes (images and outputs with
channels last, filters with the outputs last) in a program's entry alone; within a loop any other
form takes 10 to 60 times as long. JAX's own derivatives have other forms, so these are primitives
of our own, written out in that form.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from lsa_jax._convolution.gathered import gather_and_multiply

# Up to how many features two neighbouring pixels are computed at once.
_NARROW = 16


class Windows(NamedTuple):
    """Which windows of an image are multiplied with filters.

    Attributes:
        size: height and width of the images.
        window: height and width of the filters.
        strides: step between windows.
        pads: rows and columns of zeros before and after.
    """

    size: tuple[int, int]
    window: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[tuple[int, int], tuple[int, int]]

    @property
    def out(self) -> tuple[int, int]:
        """Number of windows, vertically and horizontally."""
        height, width = (
            (size + sum(pads) - window) // stride + 1
            for size, window, stride, pads in zip(*self[:3], self.pads, strict=True)
        )
        return height, width


def _outputs(x: Array, weight: Array, windows: Windows) -> Array:
    """Returns the outputs [n, p, q, f] of images [n, h, w, c] and filters [i, j, c, f]."""
    if windows.strides == (1, 1):
        return _step_by_one(x, weight, windows.pads)
    return _canonical(x, weight, windows.strides, windows.pads)


def _to_images(weight: Array, y: Array, windows: Windows) -> Array:
    """Returns the derivative by the images of outputs whose cotangent is y.

    A pixel at stride * q + r meets the filters' entries r, r + stride, ... of the windows q, q - 1,
    ...: all remainders r are channels of one convolution of stride 1, and are laid out afterwards.
    """
    (height, width), window, (down, right), pads = windows
    channels, features = weight.shape[2:]
    taps = [math.ceil(k / s) for k, s in zip(window, windows.strides, strict=True)]
    spread = [(0, t * s - k) for t, s, k in zip(taps, windows.strides, window, strict=True)]
    weight = jnp.pad(weight, [*spread, (0, 0), (0, 0)])
    weight = weight.reshape(taps[0], down, taps[1], right, channels, features)[::-1, :, ::-1]
    weight = weight.transpose(0, 2, 5, 1, 3, 4).reshape(*taps, features, down * right * channels)
    # The q from which the image begins, and behind which it ends.
    spans = [
        (pad[0] // stride, math.ceil((pad[0] + size) / stride))
        for pad, size, stride in zip(pads, windows.size, windows.strides, strict=True)
    ]
    ends = [
        (t - 1 - first, last - out)
        for t, (first, last), out in zip(taps, spans, windows.out, strict=True)
    ]
    x = _step_by_one(y, weight, ends)
    rows, columns = (last - first for first, last in spans)
    x = x.reshape(len(y), rows, columns, down, right, channels).transpose(0, 1, 3, 2, 4, 5)
    x = x.reshape(len(y), rows * down, columns * right, channels)
    top, left = (pad[0] % stride for pad, stride in zip(pads, windows.strides, strict=True))
    return x[:, top : top + height, left : left + width]


def _to_filters(x: Array, y: Array, windows: Windows) -> Array:
    """Returns the derivative by the filters of outputs whose cotangent is y.

    The outputs are the filters of a convolution over the images, whose channels are the examples.
    """
    reach = [(out - 1) * s + 1 for out, s in zip(windows.out, windows.strides, strict=True)]
    ends = [
        window - 1 + length - size - pad[0]
        for window, length, size, pad in zip(
            windows.window, reach, windows.size, windows.pads, strict=True
        )
    ]
    # Rows and columns behind the last window are cut off.
    height, width = (s + min(0, end) for s, end in zip(windows.size, ends, strict=True))
    pads = [(pad[0], max(0, end)) for pad, end in zip(windows.pads, ends, strict=True)]
    images = x[:, :height, :width].transpose(3, 1, 2, 0)
    weight = _canonical(images, y.transpose(1, 2, 0, 3), (1, 1), pads, windows.strides)
    return weight.transpose(1, 2, 0, 3)


def _step_by_one(x: Array, weight: Array, pads: Sequence[tuple[int, int]]) -> Array:
    """Convolves with stride 1, two neighbours at once where there are few features.

    Pixels two by two have twice the channels and features, which fill vectors. With 3 x 3 windows
    that is a third more products, of zeros, in 0.3 (3 channels) to 0.8 (16) of the time.
    """
    width, (*window, channels, features) = x.shape[2], weight.shape
    out = width + sum(pads[1]) - window[1] + 1
    if features > _NARROW or out % 2:
        return _canonical(x, weight, (1, 1), pads)
    taps = (window[1] + 2) // 2  # of pairs, that two neighbours' windows lie in
    (left, right), spare = pads[1], 2 * taps - window[1] - 1
    x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + [(left, right + spare, 0), (0, 0, 0)])
    shifted = [
        jnp.pad(weight, [(0, 0), (place, spare + 1 - place), (0, 0), (0, 0)]) for place in (0, 1)
    ]
    pairs = jnp.stack(shifted, axis=3).reshape(window[0], taps, 2 * channels, 2 * features)
    x = x.reshape(*x.shape[:2], x.shape[2] // 2, 2 * channels)
    y = _canonical(x, pairs, (1, 1), (pads[0], (0, 0)))
    return y.reshape(*y.shape[:2], out, features)


def _canonical(
    x: Array,
    weight: Array,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int] = (1, 1),
) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, weight, strides, pads, rhs_dilation=dilation, dimension_numbers=layout
    )


def _of_own_filters(x: Array, weight: Array, windows: Windows) -> Array:
    return gather_and_multiply(x, weight, windows.strides, windows.pads)


def _to_own_images(weight: Array, y: Array, windows: Windows) -> Array:
    form = jax.ShapeDtypeStruct((len(y), *windows.size, weight.shape[2]), y.dtype)
    back = jax.linear_transpose(lambda x: _of_own_filters(x, weight, windows), form)
    return back(y)[0]


def _to_own_filters(x: Array, y: Array, windows: Windows) -> Array:
    form = jax.ShapeDtypeStruct((*windows.window, x.shape[-1], y.shape[-1]), y.dtype)
    back = jax.linear_transpose(lambda weight: _of_own_filters(x, weight, windows), form)
    return back(y)[0]


class _Form(NamedTuple):
    """One of the three: of two operands, the third.

    Attributes:
        compute: of two operands.
        each: the same where `vmap` gives each entry operands of its own, for which XLA's
            convolutions have groups, which are slow on a CPU: by products of matrices.
        folds: for each operand, the axis that a batch of it alone can be part of, and which axis
            of the result it is part of then.
    """

    compute: Callable[[Array, Array, Windows], Array]
    each: Callable[[Array, Array, Windows], Array]
    folds: tuple[tuple[int, int], tuple[int, int]]


_FORMS = {
    "outputs": _Form(_outputs, _of_own_filters, ((0, 0), (3, 3))),
    "to_images": _Form(_to_images, _to_own_images, ((2, 3), (0, 0))),
    "to_filters": _Form(_to_filters, _to_own_filters, ((3, 2), (3, 3))),
}


def _batch(
    primitive: Primitive,
    form: _Form,
    operands: Sequence[Array],
    axes: Sequence,
    *,
    windows: Windows,
) -> tuple[Array, int]:
    """The rule of `vmap`: one larger problem where one operand has a batch."""
    batched = [place for place, axis in enumerate(axes) if axis is not None]
    if len(batched) == 2:
        return jax.vmap(partial(form.each, windows=windows), axes)(*operands), 0
    (place,) = batched
    axis, out_axis = form.folds[place]
    given = list(operands)
    stacked = jnp.moveaxis(given[place], axes[place], axis)
    count, size = stacked.shape[axis : axis + 2]
    given[place] = lax.collapse(stacked, axis, axis + 2)
    result = primitive.bind(*given, windows=windows)
    shape = (*result.shape[:out_axis], count, size, *result.shape[out_axis + 1 :])
    return result.reshape(shape), out_axis


def _primitive(name: str) -> Primitive:
    primitive, form = Primitive(f"convolution_{name}"), _FORMS[name]

    def compute(*operands: Array, windows: Windows) -> Array:
        inner = jax.jit(lambda *operands: form.compute(*operands, windows))
        return set_xla_metadata(inner(*operands), inlineable="false")

    def shape(*operands: Any, windows: Windows) -> jax.core.ShapedArray:
        found = jax.eval_shape(partial(compute, windows=windows), *operands)
        return jax.core.ShapedArray(found.shape, found.dtype)

    primitive.def_impl(jax.jit(compute, static_argnames="windows"))
    primitive.def_abstract_eval(shape)
    mlir.register_lowering(primitive, mlir.lower_fun(compute, multiple_results=False))
    batching.primitive_batchers[primitive] = partial(_batch, primitive, form)
    return primitive


_outputs_p, _to_images_p, _to_filters_p = map(_primitive, _FORMS)
ad.defbilinear(
    _outputs_p,
    lambda ct, x, weight, **given: _to_images_p.bind(weight, ct, **given),
    lambda ct, x, weight, **given: _to_filters_p.bind(x, ct, **given),
)
ad.defbilinear(
    _to_images_p,
    lambda ct, weight, y, **given: _to_filters_p.bind(ct, y, **given),
    lambda ct, weight, y, **given: _outputs_p.bind(ct, weight, **given),
)
ad.defbilinear(
    _to_filters_p,
    lambda ct, x, y, **given: _to_images_p.bind(ct, y, **given),
    lambda ct, x, y, **given: _outputs_p.bind(x, ct, **given),
)


def convolve(
    x: Float[Array, "n height width channels"],
    weight: Float[Array, "window_height window_width channels features"],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
) -> Float[Array, "n out_height out_width features"]:
    """Convolves; each derivative is one convolution as well.

    Args:
        x: images.
        weight: filters.
        strides: step between windows, vertically and horizontally.
        pads: rows and columns of zeros before and after.
    """
    windows = Windows(
        x.shape[1:3], weight.shape[:2], tuple(strides), tuple((a, b) for a, b in pads)
    )
    return _outputs_p.bind(x, weight, windows=windows)
