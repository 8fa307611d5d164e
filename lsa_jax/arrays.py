"""Checks of array arguments: which numbers, shapes and keys a public function accepts.

Every check returns the argument as an array that can be computed with, or raises `InputError` with
one line: the argument's name, its value, what is accepted and the way out. Arrays that jax traces
pass through: their shape and type are checked, their entries are not known yet.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, Real

from lsa_jax.errors import InputError

_KEYS = "a key of jax.random.key(seed)"


def real_array(
    name: str,
    value: Any,
    axes: str = "...",
    *,
    finite: bool = False,
    empty: bool = False,
) -> Real[Array | np.ndarray, "..."]:
    """Returns an argument as an array of real numbers.

    Booleans, integers and floats of any width are accepted, as numpy or jax arrays, nested lists or
    pandas objects; booleans become float32 and narrow floats (16 bits) become float32, all others
    keep their type.

    Args:
        name: of the argument, for the message.
        value: the argument.
        axes: one name an axis, such as "n c"; "..." at the end stands for any further ones.
        finite: whether NaN and infinity are refused.
        empty: whether axes of size 0 are accepted.

    Raises:
        InputError: not an array of real numbers, another number of axes, no entries, or entries
            that are not finite.
    """
    array = _as_array(name, value)
    kind = jnp.dtype(array.dtype)
    if jnp.issubdtype(kind, jnp.complexfloating):
        raise InputError(
            f"{name} holds complex numbers ({kind}); accepted: real numbers; pass real and "
            "imaginary parts as separate features, np.concatenate([x.real, x.imag], -1)"
        )
    if not (jnp.issubdtype(kind, jnp.number) or kind.kind == "b"):
        raise InputError(
            f"{name} holds {kind} entries; accepted: real numbers, as np.asarray(values, "
            "'float32') gives"
        )
    if kind.kind == "b" or kind in (np.float16, jnp.bfloat16):
        array = array.astype(np.float32)
    check_axes(name, array.shape, axes, empty=empty)
    if finite and not isinstance(array, jax.core.Tracer):
        bad = array.size - int(
            jnp.isfinite(array).sum() if is_jax(array) else np.isfinite(array).sum()
        )
        if bad:
            raise InputError(
                f"{name} has {bad} entries that are NaN or infinite, of {array.size}; accepted: "
                "finite numbers; leave those examples out, or fill them in"
            )
    return array


def check_axes(name: str, shape: tuple[int, ...], axes: str, *, empty: bool = False) -> None:
    """Raises InputError unless an array has these axes, none of them of size 0.

    Args:
        name: of the argument, for the message.
        shape: the array's.
        axes: as in `real_array`.
        empty: whether axes of size 0 are accepted.
    """
    names = axes.split()
    more = bool(names) and names[-1] == "..."
    count = len(names) - more
    accepted = f"[{', '.join(names)}]"
    if len(shape) < count or (len(shape) > count and not more):
        instead = ""
        if not more and len(shape) == count - 1 and count > 1:
            instead = f"; {name}[:, None] makes one column of it"
        elif not more and len(shape) == count + 1 and shape[-1] == 1:
            instead = f"; {name}[..., 0] takes the last axis away"
        raise InputError(f"{name} has shape {shape}; accepted: {accepted}{instead}")
    if not empty and 0 in shape:
        raise InputError(f"{name} has shape {shape}; accepted: {accepted}, each size 1 or more")


def is_jax(array: Any) -> bool:
    """Whether an array is one of jax, traced or on a device."""
    return isinstance(array, jax.Array)


def random_key(name: str, key: Any, axes: str = "") -> Key[Array, "..."]:
    """Returns a key of jax.random as a typed one; the old kind, uint32 [..., 2], is converted.

    Args:
        name: of the argument, for the message.
        key: the argument.
        axes: one name an axis of keys; "" for a single key, "..." for any number of axes.

    Raises:
        InputError: no key, or another number of keys.
    """
    more = f", or jax.random.split of one for [{axes}]"
    accepted = _KEYS + (more if axes not in ("", "...") else "")
    dtype = getattr(key, "dtype", None)
    if dtype is None:
        raise InputError(f"{name} is {key!r:.80}; accepted: {accepted}")
    if not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        if dtype != np.uint32 or not key.ndim or key.shape[-1] != 2:
            raise InputError(
                f"{name} is an array of {dtype} of shape {key.shape}; accepted: {accepted}"
            )
        key = jax.random.wrap_key_data(jnp.asarray(key))
    if axes != "..." and key.ndim != len(axes.split()):
        raise InputError(f"{name} has shape {key.shape}; accepted: {accepted}")
    return key


def _as_array(name: str, value: Any) -> Array | np.ndarray:
    """Returns what numpy or jax make of a value."""
    if isinstance(value, jax.Array):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            raise InputError(f"{name} is a key of jax.random; accepted: an array of real numbers")
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # rows of different lengths, for one
        array = None
    if array is None or array.dtype == object:
        array = _of_numbers(array)
    if array is None:
        raise InputError(
            f"{name} is no array of numbers ({type(value).__name__}); accepted: real numbers in "
            "rows of one length, as np.asarray(values, 'float32') gives"
        )
    return array


def _of_numbers(array: np.ndarray | None) -> np.ndarray | None:
    """Returns an array of Python numbers, as tables of mixed columns hold, as floats, or None."""
    if array is None or not all(isinstance(entry, int | float | np.number) for entry in array.flat):
        return None
    return array.astype(np.float64)


def warn_channels_first(name: str, shape: tuple[int, ...]) -> None:
    """Warns where images look as if their channels came first.

    Args:
        name: of the argument, for the message.
        shape: of one example, [height, width, channels].
    """
    if len(shape) == 3 and shape[0] in (1, 3) and shape[-1] >= 8:
        warnings.warn(
            f"{name} has images of shape {shape}, which are read as [height, width, channels]; if "
            f"channels come first, pass np.moveaxis({name}, 1, -1)",
            UserWarning,
            stacklevel=2,
        )
