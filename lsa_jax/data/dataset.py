"""Data sets as pairs of inputs and targets, and their checks."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from lsa_jax import backend
from lsa_jax.arrays import holds, real_array, warn_channels_first
from lsa_jax.errors import InputError


class Dataset(NamedTuple):
    """Examples along the first axis.

    Attributes:
        inputs: [n, ...]; images are [n, height, width, channels] with pixels in [0, 1].
        targets: one-hot rows [n, classes], class numbers as integers [n], signs or numbers [n], or
            [n, outputs].
    """

    inputs: Shaped[Array | np.ndarray, "n ..."]
    targets: Shaped[Array | np.ndarray, "n ..."]


def checked_dataset(name: str, data: Any) -> Dataset:
    """Returns a data set as arrays that can be trained on; the name is for messages.

    Raises:
        InputError: an array is not accepted, has entries that are not finite, or the two differ in
            length.
    """
    is_real = backend.dry_run() is None  # a dry run has zeros in place of data
    if not isinstance(data, Dataset):
        raise InputError(
            f"{name} is a {type(data).__name__}; accepted: data.Dataset(inputs, targets), or a "
            "training.Source"
        )
    inputs, targets = (
        in_32_bits(f"{name}.{part}", real_array(f"{name}.{part}", array, "n ...", finite=is_real))
        for part, array in data._asdict().items()
    )
    if len(inputs) != len(targets):
        raise InputError(
            f"{name} has {len(inputs)} inputs and {len(targets)} targets; accepted: equally many"
        )
    warn_channels_first(f"{name}.inputs", inputs.shape[1:])
    return Dataset(inputs, targets)


def best_constant_accuracy(targets: Any) -> float:
    """Returns the accuracy of the best constant answer: the share of the largest class.

    Args:
        targets: of the test examples: one-hot rows [n, c], class numbers or signs, [n] or [n, 1].
    """
    labels = np.asarray(targets)
    labels = labels.argmax(axis=1) if labels.ndim == 2 and labels.shape[1] > 1 else labels
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


def in_32_bits(name: str, array: Shaped[Array | np.ndarray, "..."]) -> Array | np.ndarray:
    """Returns an array, whole numbers as 32 bits.

    Raises:
        InputError: jax would silently truncate its integers, or make its floats infinite.
    """
    to = jax.dtypes.canonicalize_dtype(array.dtype)
    if to == array.dtype or backend.dry_run() is not None:
        return array
    if array.size and not holds(to, array):
        floats = ", or floats" * jnp.issubdtype(to, jnp.integer)
        raise InputError(
            f"{name} has {array.dtype} entries beyond {to}; accepted: smaller ones{floats}"
        )
    return array.astype(to) if jnp.issubdtype(to, jnp.integer) else array
