"""Checks of array arguments: which numbers, shapes and keys a public function accepts.

Every check returns the argument as an array that can be computed with, or raises `InputError` with
one line: the argument's name, its value, the accepted values and the way out. For arrays that jax
traces only shape and type are checked, because their entries are not known yet.
"""

import contextlib
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, Real, Shaped

from lsa_jax.errors import InputError, NumericalError, one_line

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
    array = real_numbers(name, value)
    kind = jnp.dtype(array.dtype)
    if kind.kind == "b" or (jnp.issubdtype(kind, jnp.floating) and kind.itemsize < 4):
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


def real_numbers(name: str, value: Any) -> Shaped[Array | np.ndarray, "..."]:
    """Returns an argument as an array whose entries are real numbers, of the type they have.

    A matrix that is mapped from a file is not read, unless its bytes come in the other order.

    Raises:
        InputError: not an array of real numbers.
    """
    array = _as_array(name, value)
    kind = jnp.dtype(array.dtype)
    if jnp.issubdtype(kind, jnp.complexfloating):
        raise InputError(
            f"{name} holds complex numbers ({kind}); accepted: real numbers; pass real and "
            "imaginary parts as numbers of their own, np.concatenate([x.real, x.imag], -1)"
        )
    if kind.kind in "mM" or not (jnp.issubdtype(kind, jnp.number) or kind.kind == "b"):
        raise InputError(
            f"{name} holds {kind} entries; accepted: real numbers, as np.asarray(values, "
            "'float32') gives"
        )
    if kind == np.longdouble and kind != np.float64:
        return array.astype(np.float64)
    if not is_jax(array) and not array.dtype.isnative:  # as FITS and IDX files have them
        return array.astype(array.dtype.newbyteorder("="))
    return array


def check_axes(name: str, shape: tuple[int, ...], axes: str, *, empty: bool = False) -> None:
    """Raises InputError unless an array has these axes, as in `real_array`, none of size 0.

    With `empty` axes of size 0 are accepted.
    """
    names = axes.split()
    more = bool(names) and names[-1] == "..."
    count = len(names) - more
    accepted = f"[{', '.join(names)}]" if names else "a single number"
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
    if not isinstance(key, jax.Array | np.ndarray):
        shown = one_line(repr(key))
        raise InputError(f"{name} is {shown:.80}; accepted: {accepted}")
    dtype = key.dtype
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
    """Converts a value to a numpy or jax array."""
    if isinstance(value, jax.Array):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            raise InputError(f"{name} is a key of jax.random; accepted: an array of real numbers")
        return value
    if np.ma.is_masked(value):
        raise InputError(
            f"{name} has masked entries; accepted: real numbers; leave those examples out, or fill "
            f"them in with {name}.filled(number)"
        )
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
    real = int | float | np.integer | np.floating | np.bool_
    if array is None or not all(isinstance(entry, real) for entry in array.flat):
        return None
    with contextlib.suppress(OverflowError):  # of a whole number beyond them
        return array.astype(np.float64)
    return None


def real_tree(name: str, tree: Any) -> PyTree[Real[Array | np.ndarray, "..."]]:
    """Returns a tree whose leaves are arrays of real numbers, as `real_array` returns them.

    Raises:
        InputError: another kind of leaf; the message names its place in the tree.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: real_array(f"{name}{jax.tree_util.keystr(path)}", leaf, empty=True), tree
    )


def inputs(
    name: str, x: Any, *, whole: bool = True, dtype: str | None = None, empty: bool = True
) -> Real[Array | np.ndarray, "n ..."]:
    """Returns examples as an array of a type that jax computes with.

    Booleans and integers of 8 or 16 bits, as images are stored, become floats. Floats become
    float32, or float64 where jax computes in it.

    Args:
        name: of the argument, for the message.
        x: the argument, [n, ...].
        whole: whether integers of 32 bits or more stay integers, as tokens need it; else floats.
        dtype: "float64" widens floats, and is the type of integers that become floats; None is
            jax's own type of floats.
        empty: whether axes of size 0 are accepted.

    Raises:
        InputError: not an array of real numbers, no examples, or numbers beyond 32 bits.
    """
    array = real_array(name, x, "n ...", empty=empty)
    kind, to = jnp.dtype(array.dtype), jnp.dtype(dtype or jax.dtypes.canonicalize_dtype(float))
    if jnp.issubdtype(kind, jnp.floating):
        to = to if dtype == "float64" else jax.dtypes.canonicalize_dtype(kind)
    elif whole and kind.itemsize >= 4:
        to = jax.dtypes.canonicalize_dtype(kind)
    if to.itemsize < kind.itemsize and array.size and not holds(to, array):
        floating = jnp.issubdtype(to, jnp.floating)
        instead = "" if floating else f", or floats, as {name}.astype('float32') gives"
        raise InputError(
            f"{name} has {'numbers' if floating else 'integers'} beyond {to}; accepted: smaller "
            f"ones{instead}"
        )
    return array if kind == to else array.astype(to)


def holds(kind: np.dtype, array: Real[Array | np.ndarray, "..."]) -> bool:
    """Whether a type can hold all entries of an array that are finite."""
    if jnp.issubdtype(kind, jnp.floating):
        return not bool((np.isfinite(array) & (np.abs(array) > jnp.finfo(kind).max)).any())
    limits = np.iinfo(kind)
    return limits.min <= int(array.min()) and int(array.max()) <= limits.max


def unsharded(x: Real[Array | np.ndarray, "..."]) -> Real[Array | np.ndarray, "..."]:
    """Returns an array on a mesh with explicit axes as one of numpy.

    On such a mesh, which `jax.make_mesh` makes, jax refuses products of all pairs.
    """
    if not is_jax(x) or isinstance(x, jax.core.Tracer):
        return x
    axes = getattr(getattr(x.sharding, "mesh", None), "axis_types", ())
    return np.asarray(x) if jax.sharding.AxisType.Explicit in axes else x


def input_pair(
    x1: Any,
    x2: Any,
    *,
    names: tuple[str, str] = ("x1", "x2"),
    whole: bool = True,
    dtype: str | None = None,
    empty: bool = True,
) -> tuple[Real[Array | np.ndarray, "n1 ..."], Real[Array | np.ndarray, "n2 ..."] | None]:
    """Returns two sets of examples as `inputs` does, of one type; the second may be None.

    Raises:
        InputError: as `inputs`, or the shapes differ beyond the first axis.
    """
    first = unsharded(inputs(names[0], x1, whole=whole, dtype=dtype, empty=empty))
    if x2 is None:
        return first, None
    second = unsharded(inputs(names[1], x2, whole=whole, dtype=dtype, empty=empty))
    if first.shape[1:] != second.shape[1:]:
        raise InputError(
            f"{names[0]} is {first.shape} and {names[1]} is {second.shape}; accepted: equal shapes "
            "but for the first axis"
        )
    common = jnp.promote_types(first.dtype, second.dtype)
    return tuple(x if x.dtype == common else x.astype(common) for x in (first, second))


def floats_if_taken(
    function: Callable[..., Any], *some: Real[Array | np.ndarray, "_ ..."]
) -> tuple[Real[Array | np.ndarray, "_ ..."], ...]:
    """Converts integers to floats unless a function accepts integers alone, such as tokens.

    Sums of integers overflow without an error in jax.
    """
    if not any(jnp.issubdtype(x.dtype, jnp.integer) for x in some):
        return some
    to = jax.dtypes.canonicalize_dtype(float)
    try:
        jax.eval_shape(function, *(jax.ShapeDtypeStruct((1, *x.shape[1:]), to) for x in some))
    except Exception:  # a function of users may raise anything
        return some
    return tuple(x.astype(to) for x in some)


@contextlib.contextmanager
def call_errors(function: str, *some: Any) -> Iterator[None]:
    """Converts exceptions of a user's function into one line that has its inputs' forms.

    Raises:
        InputError: the function does not take inputs of this form.
    """
    try:
        yield
    except (InputError, NumericalError, RuntimeError, FloatingPointError, MemoryError):
        raise  # not of the inputs' form
    except Exception as error:
        forms = " and ".join(f"{x.dtype} of shape {x.shape}" for x in some)
        reason = one_line(error)
        one_way = "custom_vjp" in reason  # derivatives of such functions are backward alone
        accepted = "jax.custom_jvp in place of custom_vjp" if one_way else "inputs that it takes"
        raise InputError(
            f"{function} of {forms} raises {type(error).__name__}: {reason:.200}; accepted: "
            f"{accepted}"
        ) from error


def warn_channels_first(name: str, shape: tuple[int, ...]) -> None:
    """Warns where images of a shape [height, width, channels] look as if channels came first."""
    if len(shape) == 3 and shape[0] in (1, 3) and shape[-1] >= 8:
        warnings.warn(
            f"{name} has images of shape {shape}, which layers, flax and Haiku read as [height, "
            f"width, channels]; if channels come first, pass np.moveaxis({name}, 1, -1)",
            UserWarning,
            stacklevel=2,
        )


def digest(data: Any) -> int:
    """Returns 32 bits of the types, shapes and contents of a tree's arrays, numbers and texts.

    They are the same in every process and on any device. Other objects, such as a tokenizer, are
    left out; the tokens that it makes are included.
    """
    found = 0
    for leaf in jax.tree.leaves(data):
        if isinstance(leaf, str):
            found = zlib.crc32(f"{leaf!r} ".encode(), found)
        elif isinstance(leaf, bool | int | float | np.ndarray | np.generic | jax.Array):
            is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
            array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
            found = zlib.crc32(f"{array.dtype} {array.shape} ".encode(), found)
            found = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8), found)
    return found
