"""The only door to neural-tangents, which is archived and does not import on current JAX by itself.

neural-tangents 0.6.5 was written for JAX 0.4.23. It binds names that have moved since, and its
`experimental` half imports TensorFlow. `_names_of_old_jax` supplies those names while it is being
imported and takes them away again; `_repair` changes what its own modules look up later. Both leave
jax as it was. An empty module stands in for `neural_tangents.experimental`.

Repaired: `stax`, `linearize`, `batch`, `predict`, and `empirical_ntk_fn` with
`NtkImplementation.JACOBIAN_CONTRACTION` or `NtkImplementation.NTK_VECTOR_PRODUCTS`. Its other two
implementations rest on internals of JAX that are gone; they are not repaired.
"""

import contextlib
import math
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core
import jax.interpreters.ad
import scipy.linalg
from jax import numpy as jnp

_EARLIEST, _BEFORE = (0, 10), (0, 13)


def _check_jax_version(version: str) -> None:
    """Raises ImportError unless neural-tangents was seen to work on this version of jax."""
    if not _EARLIEST <= tuple(int(part) for part in version.split(".")[:2]) < _BEFORE:
        raise ImportError(
            f"jax {version} is installed; lsa_jax and its neural-tangents 0.6.5 need "
            f"jax>={_EARLIEST[0]}.{_EARLIEST[1]},<{_BEFORE[0]}.{_BEFORE[1]}"
        )


def _strict_zip(*sequences: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns a list, and refuses sequences of different lengths: `safe_zip` of old."""
    return list(zip(*sequences, strict=True))


def _strict_map(function: Callable, *sequences: Sequence[Any]) -> list[Any]:
    """Returns a list, and refuses sequences of different lengths: `safe_map` of old."""
    return [function(*members) for members in _strict_zip(*sequences)]


@contextlib.contextmanager
def _lent(module: types.ModuleType, members: dict[str, Any]) -> Iterator[None]:
    """Gives a module the members that it lacks, and takes them away at the end."""
    lacking = {name: member for name, member in members.items() if name not in vars(module)}
    vars(module).update(lacking)
    try:
        yield
    finally:
        for name in lacking:
            delattr(module, name)


@contextlib.contextmanager
def _names_of_old_jax() -> Iterator[None]:
    """Puts names where neural-tangents looks for them while it is being imported, and only then.

    It binds them, or fills a table with them as keys, and never looks them up again.
    """
    moved = ("Primitive", "Jaxpr", "JaxprEqn", "Literal", "Var")
    core = {name: getattr(jax.extend.core, name) for name in moved}
    # No program holds this primitive any more; the rules filed under it are never looked up.
    ad = {"zeros_like_p": jax.extend.core.Primitive("zeros_like")}
    util = types.ModuleType("jax.util")
    vars(util).update(safe_map=_strict_map, safe_zip=_strict_zip)
    sys.modules[util.__name__] = util
    try:
        with _lent(jax.core, core), _lent(jax.interpreters.ad, ad):
            yield
    finally:
        del sys.modules[util.__name__]


def _replaced(module: types.ModuleType, **members: Any) -> types.SimpleNamespace:
    """Returns a copy of a module's namespace with some members replaced."""
    return types.SimpleNamespace(**{**vars(module), **members})


def _size(array: Any) -> int:
    """Returns the number of entries; `jnp.size` has come to refuse `jax.ShapeDtypeStruct`."""
    return math.prod(array.shape)


def _eigvalsh(matrix: Any, eigvals: tuple[int, int]) -> Any:
    """`scipy.linalg.eigvalsh` by the name that one of its arguments had before scipy 1.14."""
    return scipy.linalg.eigvalsh(matrix, subset_by_index=eigvals)


def _repair() -> None:
    """Changes what neural-tangents' modules look up at run time, in their own namespaces."""
    from neural_tangents._src import empirical
    from neural_tangents._src import predict as prediction
    from neural_tangents._src.stax import linear

    empirical.jnp = _replaced(jnp, size=_size)
    prediction.sp = _replaced(scipy, linalg=_replaced(scipy.linalg, eigvalsh=_eigvalsh))
    # A solver is set up outside whatever is being traced. `eval_context` does not let it see traced
    # kernels any more (UnexpectedTracerError); this public one evaluates what is known, and traces
    # the rest.
    core = _replaced(jax.core, eval_context=jax.ensure_compile_time_eval)
    prediction.jax = linear.jax = _replaced(jax, core=core)


_check_jax_version(jax.__version__)
sys.modules.setdefault(
    "neural_tangents.experimental", types.ModuleType("neural_tangents.experimental")
)
with _names_of_old_jax():
    from neural_tangents import (
        NtkImplementation,
        batch,
        empirical_ntk_fn,
        linearize,
        predict,
        stax,
    )
_repair()

__all__ = ["NtkImplementation", "batch", "empirical_ntk_fn", "linearize", "predict", "stax"]
