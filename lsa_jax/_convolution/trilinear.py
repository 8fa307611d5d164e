"""A convolution whose derivatives are primitives too, each with a form of its own.

With images x, filters w and outputs y, sum(y * convolution(x, w)) is linear in each of the three.
Its derivative by y is the convolution, by x and by w are those of backpropagation, and any
derivative of one of the three is another of them: so they are closed under differentiation, to any
order. JAX's own derivatives of a convolution are other forms of it than those that CPU libraries
are fast at, so these are primitives of our own, written out in forms that are.
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


class Windows(NamedTuple):
    """Which windows of an image are multiplied with filters.

    `size` is of the images, `window` of the filters, `strides` are steps between windows, and
    `pads` rows and columns of zeros before and after.
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

    @property
    def met(self) -> "Windows":
        """The same without rows and columns behind the last window.

        Its `size` is that of the part of the images, and of its `pads` none is to be cut off.
        """
        behind = [
            (out - 1) * stride + window - size - before
            for out, stride, window, size, (before, _) in zip(
                self.out, self.strides, self.window, self.size, self.pads, strict=True
            )
        ]
        height, width = (size + min(0, end) for size, end in zip(self.size, behind, strict=True))
        above, left = ((pad[0], max(0, end)) for pad, end in zip(self.pads, behind, strict=True))
        return self._replace(size=(height, width), pads=(above, left))


# Of two operands, the third.
Form = Callable[[Array, Array, Windows], Array]


class Forms(NamedTuple):
    """How each of the three is computed from the two others.

    Attributes:
        outputs: [n, p, q, f] of images [n, h, w, c] and filters [i, j, c, f].
        to_images: the derivative by the images, of filters and the outputs' cotangent.
        to_filters: the derivative by the filters, of images and the outputs' cotangent.
    """

    outputs: Form
    to_images: Form
    to_filters: Form


# For each operand of each form, the axis that a batch of it alone can be part of, and which axis of
# the result it is part of then.
_FOLDS = Forms(((0, 0), (3, 3)), ((2, 3), (0, 0)), ((3, 2), (3, 3)))


def convolution(
    name: str, forms: Forms, each: Forms | None = None
) -> Callable[[Array, Array, Sequence[int], Sequence[tuple[int, int]]], Array]:
    """Returns a convolution that these forms compute, and so all its derivatives.

    Programs that are printed have the name. `each` are the forms where `vmap` gives each entry
    operands of its own; None computes one entry after the other.
    """
    names = (f"{name}_{form}" for form in Forms._fields)
    found = Forms(*map(_primitive, names, forms, each or (None,) * len(forms), _FOLDS))
    outputs, to_images, to_filters = found
    ad.defbilinear(
        outputs,
        lambda ct, x, weight, **given: to_images.bind(weight, ct, **given),
        lambda ct, x, weight, **given: to_filters.bind(x, ct, **given),
    )
    ad.defbilinear(
        to_images,
        lambda ct, weight, y, **given: to_filters.bind(ct, y, **given),
        lambda ct, weight, y, **given: outputs.bind(ct, weight, **given),
    )
    ad.defbilinear(
        to_filters,
        lambda ct, x, y, **given: to_images.bind(ct, y, **given),
        lambda ct, x, y, **given: outputs.bind(x, ct, **given),
    )

    def convolve(
        x: Float[Array, "n height width channels"],
        weight: Float[Array, "window_height window_width channels features"],
        strides: Sequence[int],
        pads: Sequence[tuple[int, int]],
    ) -> Float[Array, "n out_height out_width features"]:
        """Convolves images with filters; `pads` are zeros before and after."""
        windows = Windows(
            x.shape[1:3], weight.shape[:2], tuple(strides), tuple((a, b) for a, b in pads)
        )
        return outputs.bind(x, weight, windows=windows)

    return convolve


def _primitive(name: str, form: Form, each: Form | None, folds: tuple) -> Primitive:
    primitive = Primitive(f"convolution_{name}")

    def compute(*operands: Array, windows: Windows) -> Array:
        inner = jax.jit(lambda *operands: form(*operands, windows))
        return set_xla_metadata(inner(*operands), inlineable="false")

    def shape(*operands: Any, windows: Windows) -> jax.core.ShapedArray:
        found = jax.eval_shape(partial(compute, windows=windows), *operands)
        return jax.core.ShapedArray(found.shape, found.dtype)

    primitive.def_impl(jax.jit(compute, static_argnames="windows"))
    primitive.def_abstract_eval(shape)
    mlir.register_lowering(primitive, mlir.lower_fun(compute, multiple_results=False))
    batching.primitive_batchers[primitive] = partial(_batch, primitive, each, folds)
    return primitive


def _batch(
    primitive: Primitive,
    each: Form | None,
    folds: tuple,
    operands: Sequence[Array],
    axes: Sequence,
    *,
    windows: Windows,
) -> tuple[Array, int]:
    """The rule of `vmap`: one larger problem where one operand has a batch."""
    batched = [place for place, axis in enumerate(axes) if axis is not None]
    if len(batched) == 2:
        if each is not None:
            return jax.vmap(partial(each, windows=windows), axes)(*operands), 0
        pairs = tuple(map(partial(jnp.moveaxis, destination=0), operands, axes))
        return lax.map(lambda pair: primitive.bind(*pair, windows=windows), pairs), 0
    (place,) = batched
    axis, out_axis = folds[place]
    given = list(operands)
    stacked = jnp.moveaxis(given[place], axes[place], axis)
    count, size = stacked.shape[axis : axis + 2]
    given[place] = lax.collapse(stacked, axis, axis + 2)
    result = primitive.bind(*given, windows=windows)
    shape = (*result.shape[:out_axis], count, size, *result.shape[out_axis + 1 :])
    return result.reshape(shape), out_axis


def to_images(weight: Array, y: Array, windows: Windows, step_by_one: Callable) -> Array:
    """Returns the derivative by the images of outputs with cotangent y: one convolution.

    A pixel at stride * q + r meets the filters' entries r, r + stride, ... of the windows q, q - 1,
    ...: all remainders r are channels of one convolution of stride 1, `step_by_one(x, weight,
    pads)`, and are laid out afterwards. Some of its pads may be negative, which cut off.
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
    x = step_by_one(y, weight, ends)
    rows, columns = (last - first for first, last in spans)
    x = x.reshape(len(y), rows, columns, down, right, channels).transpose(0, 1, 3, 2, 4, 5)
    x = x.reshape(len(y), rows * down, columns * right, channels)
    top, left = (pad[0] % stride for pad, stride in zip(pads, windows.strides, strict=True))
    return x[:, top : top + height, left : left + width]
