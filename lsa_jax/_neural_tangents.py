"""neural-tangents, which is archived and does not import on current JAX, repaired.

It is an optional peer: where it is not installed, each name here is a `Missing`, which raises an
error when it is used. Its metadata requires TensorFlow, which neither its used half nor lsa_jax
imports.

neural-tangents 0.6.5 was written for JAX 0.4.23. It binds names that have moved since, and its
`experimental` half imports TensorFlow. `_names_of_old_jax` supplies those names during the import
and removes them again; `_repair` replaces names in its own modules' namespaces. Both leave jax
unchanged. An empty module stands in for `neural_tangents.experimental`.

Repaired: `stax`, `linearize`, `batch`, `predict`, and `empirical_ntk_fn` with
`NtkImplementation.JACOBIAN_CONTRACTION` or `NtkImplementation.NTK_VECTOR_PRODUCTS`.
"""

import contextlib
import importlib.util
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.extend.core
import jax.interpreters.ad
import scipy
from jax import numpy as jnp

from lsa_jax.errors import InputError

_EARLIEST, _BEFORE = (0, 10), (0, 13)


def _check_jax_version(version: str) -> None:
    """Raises ImportError unless neural-tangents was tested on this version of jax."""
    if not _EARLIEST <= tuple(int(part) for part in version.split(".")[:2]) < _BEFORE:
        raise ImportError(
            f"jax {version} is installed; lsa_jax and its neural-tangents 0.6.5 need "
            f"jax>={_EARLIEST[0]}.{_EARLIEST[1]},<{_BEFORE[0]}.{_BEFORE[1]}"
        )


def _strict_zip(*sequences: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Returns a list, and refuses sequences of different lengths: `safe_zip` of old."""
    return list(zip(*sequences, strict=True))


def _strict_map(function: Callable, *sequences: Iterable[Any]) -> list[Any]:
    """Returns a list, and refuses sequences of different lengths: `safe_map` of old."""
    return [function(*members) for members in _strict_zip(*sequences)]


@contextlib.contextmanager
def _lent(module: types.ModuleType, members: dict[str, Any]) -> Iterator[None]:
    """Adds the members that a module lacks, and removes them at the end."""
    lacking = {name: member for name, member in members.items() if name not in vars(module)}
    vars(module).update(lacking)
    try:
        yield
    finally:
        for name in lacking:
            delattr(module, name)


@contextlib.contextmanager
def _names_of_old_jax() -> Iterator[None]:
    """Supplies names that neural-tangents looks up during its import, and only then."""
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


def replaced(module: types.ModuleType, **members: Any) -> types.SimpleNamespace:
    """Returns a copy of a module's namespace with some members replaced."""
    return types.SimpleNamespace(**{**vars(module), **members})


def _size(array: Any) -> int:
    """Returns the number of entries; `jnp.size` has come to refuse `jax.ShapeDtypeStruct`."""
    return math.prod(array.shape)


def _eigvalsh(matrix: Any, eigvals: tuple[int, int]) -> Any:
    """`scipy.linalg.eigvalsh` by the name that one of its arguments had before scipy 1.14."""
    return scipy.linalg.eigvalsh(matrix, subset_by_index=eigvals)


def _repair() -> None:
    """Replaces names in the namespaces of neural-tangents' modules."""
    from neural_tangents._src import empirical
    from neural_tangents._src import predict as prediction
    from neural_tangents._src.stax import linear

    empirical.jnp = replaced(jnp, size=_size)
    # All that it takes of scipy, whose `linalg` is imported where it is used: it takes long.
    prediction.sp = types.SimpleNamespace(linalg=types.SimpleNamespace(eigvalsh=_eigvalsh))
    # A solver is set up outside whatever is being traced. `eval_context` does not let it see traced
    # kernels any more (UnexpectedTracerError); this public one evaluates known values, and traces
    # the rest.
    core = replaced(jax.core, eval_context=jax.ensure_compile_time_eval)
    prediction.jax = linear.jax = replaced(jax, core=core)


class Missing:
    """Stands for a name of neural-tangents where that is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _refuse(self) -> InputError:
        return InputError(
            f"neural-tangents is not installed, and its {self.name} is needed; accepted: pip "
            "install 'lsa_jax[neural-tangents]', or without TensorFlow pip install frozendict and "
            "pip install --no-deps neural-tangents==0.6.5"
        )

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Raises InputError, as every use does."""
        raise self._refuse()

    def __getattr__(self, name: str) -> Any:
        """Raises InputError but for names that Python itself looks for."""
        raise AttributeError(name) if name.startswith("__") else self._refuse()


_check_jax_version(jax.__version__)
if importlib.util.find_spec("neural_tangents") is None:
    NtkImplementation, batch, empirical_ntk_fn, linearize, predict, stax = map(
        Missing,
        ("NtkImplementation", "batch", "empirical_ntk_fn", "linearize", "predict", "stax"),
    )
else:
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
