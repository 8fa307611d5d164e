"""Structured derivatives of neural-tangents on current JAX, a peer of our finite kernels.

`NtkImplementation.STRUCTURED_DERIVATIVES` rests on internals of JAX that are gone. `repair` does
the same by public means, for networks made of single operations (no branches or loops, as
`lax.cond` or `lax.scan`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core
import jax.interpreters.ad
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Literal

from lsa_jax._neural_tangents import replaced


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


def repair() -> None:
    """Replaces names in the namespace of neural-tangents' finite kernels."""
    from neural_tangents._src import empirical

    empirical._get_primals_out_and_pullback = _outputs_and_pullback
    empirical._eqn_vjp_fn, empirical._eqn_jvp_fn = _transposed, _pushed
    dynamic = type("DShapedArray", (), {})  # gone, and only compared against
    empirical.core = replaced(jax.core, DShapedArray=dynamic, ShapedArray=empirical.ShapedArray)
    empirical.ad = replaced(
        jax.interpreters.ad, source_info_util=source_info_util, config=jax.config
    )
