"""Hashes that identify a run: a checkpoint holds them, and another run's is refused.

They are equal in every process, on any devices and in a resumed run: programs are lowered for one
replica on a CPU, whatever they are compiled for. Each is 32 bits of a SHA-256.
"""

import hashlib
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import PyTree

from lsa_jax import backend
from lsa_jax.parallel import BATCH_AXIS


def of_text(text: str) -> int:
    """Returns the hash of a text."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def of_arrays(tree: PyTree) -> int:
    """Returns the hash of the types, shapes and bytes of a tree's arrays, in order."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        digest.update(f"{array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return of_text(digest.hexdigest())


def of_program(function: Callable, *arguments: PyTree) -> int:
    """Returns the hash of a function's program, with all constants that it refers to.

    Args:
        function: of trees of arrays.
        arguments: arrays, or their shapes.
    """
    # A model of split batches averages over their axis, which must exist; here it has one part.
    forms = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype),
        jax.eval_shape(lambda *trees: trees, *arguments),
    )
    with backend.built_for("cpu"):
        traced = jax.jit(jax.vmap(function, axis_name=BATCH_AXIS)).trace(*forms)
        return of_text(traced.lower(lowering_platforms=("cpu",)).as_text())
