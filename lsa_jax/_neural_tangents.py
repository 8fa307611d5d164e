"""neural-tangents, which is archived and does not import on current JAX, repaired.

It is an optional peer: where it is not installed, each name here is a `Missing`, which raises an
error when it is used. Its metadata requires TensorFlow, which neither its used half nor lsa_jax
imports.

neural-tangents 0.6.5 was written for JAX 0.4.23. It binds names that have moved since, and its
`experimental` half imports TensorFlow. `_names_of_old_jax` supplies those names during the import
and removes them again; `_repair` replaces names in its own modules' namespaces. Both leave jax
unchanged. An empty module stands in for `neural_tangents.experimental`.

Repaired: `stax`, `linearize`, `batch`, `predict`, and `empirical_ntk_fn` with
`NtkImplementation.JACOBIAN_CONTRACTION`, `NtkImplementation.NTK_VECTOR_PRODUCTS` or
`NtkImplementation.STRUCTURED_DERIVATIVES`. The last rests on internals of JAX that are gone:
`_linear_program` and the functions after it do the same by public means, for networks made of
single operations (no branches or loops, as `lax.cond` or `lax.scan`).
"""

import contextlib
import importlib.util
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core
import jax.interpreters.ad
import scipy.linalg
from jax import numpy as jnp
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Literal

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


def _replaced(module: types.ModuleType, **members: Any) -> types.SimpleNamespace:
    """Returns a copy of a module's namespace with some members replaced."""
    return types.SimpleNamespace(**{**vars(module), **members})


def _size(array: Any) -> int:
    """Returns the number of entries; `jnp.size` has come to refuse `jax.ShapeDtypeStruct`."""
    return math.prod(array.shape)


def _eigvalsh(matrix: Any, eigvals: tuple[int, int]) -> Any:
    """`scipy.linalg.eigvalsh` by the name that one of its arguments had before scipy 1.14."""
    return scipy.linalg.eigvalsh(matrix, subset_by_index=eigvals)


def _linear_program(function: Callable, *primals: Any) -> tuple[Any, ClosedJaxpr]:
    """Linearises a function; returns its outputs, and the program from tangents to tangents.

    Equations that no tangent enters are evaluated, and those that no output needs are left out.
    """
    with jax.disable_jit():
        outputs, linear = jax.linearize(function, *primals)
        program = jax.make_jaxpr(linear)(*primals)
    jaxpr = program.jaxpr
    known = dict(zip(jaxpr.constvars, program.consts, strict=True))
    dependent, kept = set(jaxpr.invars), []
    for equation in jaxpr.eqns:
        variables = [atom for atom in equation.invars if not isinstance(atom, Literal)]
        if dependent.intersection(variables):
            kept.append(equation)
            dependent.update(equation.outvars)
        else:
            values = [a.val if isinstance(a, Literal) else known[a] for a in equation.invars]
            result = equation.primitive.bind(*values, **equation.params)
            results = result if equation.primitive.multiple_results else [result]
            known.update(zip(equation.outvars, results, strict=True))
    needed, alive = {a for a in jaxpr.outvars if not isinstance(a, Literal)}, []
    for equation in reversed(kept):
        if needed.intersection(equation.outvars):
            alive.insert(0, equation)
            needed.update(a for a in equation.invars if not isinstance(a, Literal))
    constants = {variable: value for variable, value in known.items() if variable in needed}
    jaxpr = jaxpr.replace(
        constvars=list(constants), eqns=alive, debug_info=jaxpr.debug_info.with_unknown_names()
    )
    return outputs, ClosedJaxpr(jaxpr, list(constants.values()))


def _outputs_and_pullback(
    function: Callable, mode: Any, j_rules: bool, s_rules: bool, forward: bool | None, *primals: Any
) -> tuple[Any, Callable]:
    """`empirical._get_primals_out_and_pullback` by public means."""
    from neural_tangents._src import empirical

    outputs, program = _linear_program(function, *primals)
    structure = jax.tree.structure(primals)

    def pullback(*cotangents: Any) -> Any:
        results = empirical._backward_pass(
            program.jaxpr,
            mode=mode,
            consts=program.consts,
            primals_in=[empirical.UndefinedPrimal(v.aval) for v in program.jaxpr.invars],
            cotangents_in=tuple(jax.tree.leaves(cotangents)),
            _j_rules=j_rules,
            _s_rules=s_rules,
            _fwd=forward,
        )
        return jax.tree.unflatten(structure, results)

    return outputs, pullback


def _one_equation(equation: Any, values: Sequence[Any], unknown: Sequence[int]) -> Callable:
    """Returns an equation as a function of some of its inputs."""

    def run(*given: Any) -> Any:
        inputs = list(values)
        for place, value in zip(unknown, given, strict=True):
            inputs[place] = value
        return equation.primitive.bind(*inputs, **equation.params)

    return run


def _transposed(equation: Any, cotangent: Any, *values: Any) -> Any:
    """`empirical._eqn_vjp_fn` by public means: cotangents of the inputs that are not known."""
    undefined, zero = jax.interpreters.ad.UndefinedPrimal, jax.interpreters.ad.Zero
    if equation is None:
        return (cotangent,)
    if isinstance(cotangent, zero):
        return zero
    unknown = [i for i, value in enumerate(values) if isinstance(value, undefined)]
    forms = [jax.ShapeDtypeStruct(values[i].aval.shape, values[i].aval.dtype) for i in unknown]
    run = _one_equation(equation, values, unknown)
    results = [None] * len(values)
    for place, result in zip(unknown, jax.linear_transpose(run, *forms)(cotangent), strict=True):
        results[place] = result
    return results


def _pushed(equation: Any, place: int, tangent: Any, *values: Any) -> Any:
    """`empirical._eqn_jvp_fn` by public means: an equation is linear in an unknown input."""
    if equation is None:
        return tangent
    return _one_equation(equation, values, [place])(tangent)


def _repair_structured_derivatives(empirical: types.ModuleType) -> None:
    empirical._get_primals_out_and_pullback = _outputs_and_pullback
    empirical._eqn_vjp_fn, empirical._eqn_jvp_fn = _transposed, _pushed
    dynamic = type("DShapedArray", (), {})  # gone, and only compared against
    empirical.core = _replaced(jax.core, DShapedArray=dynamic, ShapedArray=empirical.ShapedArray)
    empirical.ad = _replaced(
        jax.interpreters.ad, source_info_util=source_info_util, config=jax.config
    )


def _repair() -> None:
    """Replaces names in the namespaces of neural-tangents' modules."""
    from neural_tangents._src import empirical
    from neural_tangents._src import predict as prediction
    from neural_tangents._src.stax import linear

    empirical.jnp = _replaced(jnp, size=_size)
    _repair_structured_derivatives(empirical)
    prediction.sp = _replaced(scipy, linalg=_replaced(scipy.linalg, eigvalsh=_eigvalsh))
    # A solver is set up outside whatever is being traced. `eval_context` does not let it see traced
    # kernels any more (UnexpectedTracerError); this public one evaluates known values, and traces
    # the rest.
    core = _replaced(jax.core, eval_context=jax.ensure_compile_time_eval)
    prediction.jax = linear.jax = _replaced(jax, core=core)


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
