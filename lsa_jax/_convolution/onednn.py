"""Convolution and its derivatives on a CPU by oneDNN, which jaxlib brings for processors of x86.

XLA's own convolutions go through Eigen, which for few channels reaches a third of the speed of
oneDNN's kernels, and leaves a core idle. XLA has a call for them that is not part of JAX's public
interface, so it is made where it was tested alone (see `usable`). All three forms are convolutions
forwards, as the call has no others, in layouts for which oneDNN has a fast kernel.
"""

import functools
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from lsa_jax import backend
from lsa_jax._convolution.trilinear import Forms, Windows, convolution, to_images

# The call's settings have been read differently by versions before, with the process's end where
# they do not fit: others are not tried.
_TESTED = ("0.10.2",)
_CPU = Path("/proc/cpuinfo")


def usable() -> bool:
    """Whether programs are built for this machine, and it is of the kind that the call is for.

    That is Linux on a processor with vectors of 512 bits: on others oneDNN may have no fast kernel.
    Of programs for other machines, and of those whose operations are counted, it is no part: it
    can be neither exported nor counted.
    """
    return not backend.is_elsewhere() and _is_here()


@functools.cache
def _is_here() -> bool:
    if version("jaxlib") not in _TESTED or not _CPU.exists():
        return False
    return "avx512f" in _CPU.read_text().split()


def _outputs(x: Array, weight: Array, windows: Windows) -> Array:
    (height, width), _, strides, pads = windows.met
    return _call(x[:, :height, :width], weight, _HWIO, strides, pads)


def _to_images(weight: Array, y: Array, windows: Windows) -> Array:
    return to_images(weight, y, windows, _step_by_one)


def _step_by_one(x: Array, weight: Array, pads: Sequence[tuple[int, int]]) -> Array:
    """Convolves with stride 1; parts outside of negative pads are cut off first."""
    cut = [(0, 0, 0), *((min(0, a), min(0, b), 0) for a, b in pads), (0, 0, 0)]
    x = lax.pad(x, jnp.zeros((), x.dtype), cut)
    return _call(x, weight, _HWIO, (1, 1), [(max(0, a), max(0, b)) for a, b in pads])


def _to_filters(x: Array, y: Array, windows: Windows) -> Array:
    """Returns the derivative by the filters, as one convolution of one image.

    Its channels are the examples, which the sum goes over, and the outputs' cotangents are its
    filters. The images' columns and channels are one axis of it, along which its filters' entries
    lie `channels` apart: so it gives, for one place in the window after the other, a row of all
    channels, which is as many numbers at once as a fast kernel needs.
    """
    (height, width), window, (down, right), (rows, (left, over)) = windows.met
    (count, *_, channels), features = x.shape, y.shape[-1]
    image = x[:, :height, :width].reshape(count, height * width * channels).T
    image = image.reshape(1, height, width * channels, count)
    pads = rows, (left * channels, over * channels)
    found = _call(image, y, _EXAMPLES_IN, (1, 1), pads, (down, right * channels))
    return found.reshape(*window, channels, features)


class _Filters(NamedTuple):
    """Which axes of an array of filters are which."""

    channels: int
    features: int
    window: tuple[int, int]


_HWIO = _Filters(2, 3, (0, 1))
_EXAMPLES_IN = _Filters(0, 3, (1, 2))


def _call(
    x: Array,
    filters: Array,
    axes: _Filters,
    strides: tuple[int, int],
    pads: Sequence[tuple[int, int]],
    dilation: tuple[int, int] = (1, 1),
) -> Array:
    """Convolves images [n, h, w, c]; no pad is negative."""
    window = [filters.shape[axis] for axis in axes.window]
    out = [
        (size + sum(pad) - (taps - 1) * apart - 1) // stride + 1
        for size, pad, taps, apart, stride in zip(
            x.shape[1:3], pads, window, dilation, strides, strict=True
        )
    ]
    images = {"data": {"batch_dim": 0, "feature_dim": 3, "spatial_dims": [1, 2]}}
    kernel = {
        "input_feature_dim": axes.channels,
        "output_feature_dim": axes.features,
        "spatial_dims": axes.window,
        "shape": filters.shape,
    }
    before, after = zip(*pads, strict=True)
    spread = {
        "size": window,
        "pad_left": before,
        "pad_right": after,
        "strides": strides,
        "window_dilations": dilation,
    }
    settings = {
        "dims": 4,
        "input": images,
        "kernel": {"filter": kernel},
        "output": images,
        "window": spread,
        "feature_groups": 1,
    }
    call = jax.ffi.ffi_call(
        "__onednn$convolution",
        jax.ShapeDtypeStruct((len(x), *out, filters.shape[axes.features]), x.dtype),
        custom_call_api_version=1,
        legacy_backend_config=json.dumps({"onednn_conv_config": settings}),
    )
    return call(x, filters)


convolve = convolution("onednn", Forms(_outputs, _to_images, _to_filters))
