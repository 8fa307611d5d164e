"""The tangent kernel of a finite network at given parameters.

There are three methods. With P parameters and a forward pass of F operations, for each pair of
examples:

* "jacobian" takes O(c P) time, O(c^2 P) for the full kernel; O((n1 + n2) c P) memory;
* "vector_products" takes O(c F) time for either: for many outputs;
* "layerwise" is "jacobian" except for dense layers, whose k inputs and f outputs count k + c f
  instead of c k f, and at p positions p^2 as much, where that is less; without `x2` it computes
  little more than half of the pairs. Convolutions of images are dense layers at the positions
  of their windows.

All are exact, with products in full precision also on accelerators whose default is less (TF32).
"""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from lsa_jax import arrays, costs
from lsa_jax._neural_tangents import empirical_ntk_fn
from lsa_jax.checks import one_of, require
from lsa_jax.errors import InputError, one_line
from lsa_jax.kernels.finite import layerwise
from lsa_jax.kernels.finite.arguments import (
    Apply,
    Examples,
    Params,
    count_outputs,
    floating_leaf,
    pair_seen,
)
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages

Method = Literal["auto", "jacobian", "vector_products", "layerwise", "neural_tangents"]
_Leaves = list[Array | np.ndarray]

# Forward passes that one column of the kernel takes by vector products: a linearised forward pass
# and a backward one, each twice as long as a forward one.
_PASSES = 4

# Memory of a call over that of the arrays that it holds: 1.1 to 2.5, as measured.
_OVERHEAD = 2

# Pairs of the diagonal that a CPU computes at a time. An accelerator takes as many as hold half of
# the examples that it differentiates at a time elsewhere: a pair is two.
_DIAGONAL_BATCH = 16

# The remedy where parameters cannot be differentiated in.
_LEAVE_OUT = "cast them, or leave them out by selected="


def _by_jacobians(
    apply: Apply, params: Params, x1: Array, x2: Array | None, *, full: bool
) -> Array:
    """Computes the NTK from both Jacobians (Novak et al., section 3.2)."""

    def jacobian(x: Array) -> list[Array]:
        """Returns df/dtheta of every example, [n, c, numbers of a parameter] each."""
        of_one = jax.jacrev(lambda theta, one: apply(theta, one[None])[0])
        leaves = jax.tree.leaves(jax.vmap(of_one, (None, 0))(params, x))
        return [leaf.reshape(*leaf.shape[:2], math.prod(leaf.shape[2:])) for leaf in leaves]

    first = jacobian(x1)
    second = first if x2 is None else jacobian(x2)
    product = "nap,mbp->nmab" if full else "nap,map->nm"
    kernel = sum(jnp.einsum(product, a, b) for a, b in zip(first, second, strict=True))
    return kernel if full else kernel / first[0].shape[1]


def _by_vector_products(
    apply: Apply, params: Params, x1: Array, x2: Array | None, *, full: bool
) -> Array:
    """Computes the NTK column by column (Novak et al., section 3.3).

    Column j of a pair's kernel is the derivative of f(x) along the gradient of f_j(x').
    """

    def of_pair(one: Array, other: Array) -> Array:
        def at(x: Array) -> Callable[[Any], Array]:
            return lambda theta: apply(theta, x[None])[0]

        outputs, pullback = jax.vjp(at(other), params)

        def column(cotangent: Array) -> Array:
            with arrays.call_errors("apply(params, x)", x1):
                return jax.jvp(at(one), (params,), pullback(cotangent))[1]

        return jax.vmap(column, out_axes=1)(jnp.eye(len(outputs), dtype=outputs.dtype))

    kernel = jax.vmap(jax.vmap(of_pair, (None, 0)), (0, None))(x1, x1 if x2 is None else x2)
    return kernel if full else jnp.trace(kernel, axis1=2, axis2=3) / kernel.shape[-1]


def _by_neural_tangents(
    apply: Apply, params: Params, x1: Array, x2: Array | None, *, full: bool
) -> Array:
    """Computes the NTK by neural-tangents, which has to be installed."""
    axes = () if full else (-1,)
    return empirical_ntk_fn(apply, trace_axes=axes, vmap_axes=0)(x1, x2, params)


_NTKS = {
    "jacobian": _by_jacobians,
    "vector_products": _by_vector_products,
    "layerwise": layerwise.layerwise_ntk,
    "neural_tangents": _by_neural_tangents,
}
_METHODS = ("auto", *_NTKS)


@jax.default_matmul_precision("highest")
def empirical_ntk(
    apply: Apply,
    params: Params,
    x1: Examples,
    x2: Examples | None = None,
    *,
    full: bool = False,
    diagonal: bool = False,
    selected: PyTree[bool] = True,
    method: Method = "auto",
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 c c"] | Float[Array, " n"] | Float[Array, "n c c"]:
    """Computes the neural tangent kernel of a finite network at its parameters.

    Theta(x, x')_ij = df_i(x)/dtheta . df_j(x')/dtheta, an [n1, n2, c, c] array. Its average over
    the c outputs, sum_i Theta_ii / c, converges to the infinite-width kernel [n1, n2].
    Each example goes through `apply` by itself: one in which examples of a batch act on one another
    (batch normalisation) is not the function whose kernel this is.

    All methods are exact; "auto" takes the one with the fewest operations. To stay within a memory
    limit, give `finite_kernel` to `kernels.gram`. What was compiled is kept for the last networks,
    so the kernel at other parameters takes no more than its operations.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, any pure function.
        params: where to differentiate: at initialisation, or after training.
        x1: first inputs.
        x2: second inputs; None means x1 against itself.
        full: return the whole kernel rather than its average over outputs.
        diagonal: only the pairs of an example of x1 with the one of x2 in the same place.
        selected: which parameters to differentiate in: a tree of booleans, whose leaves may stand
            for whole subtrees of the parameters, such as {"Conv_0": True, "Dense_0": False}.
        method: which algorithm; "neural_tangents" is that library's, for comparison.

    Returns:
        [n1, n2], or [n1, n2, c, c] if `full`; without the second axis if `diagonal`.

    Raises:
        InputError: shapes, method or selection are not accepted, or, but in jit, do not fit memory.

    Source: Novak, Sohl-Dickstein and Schoenholz, Fast finite width neural tangent kernel, 2022,
    sections 3.2 to 3.4.
    """
    require("method", method, one_of(*_METHODS))
    x1, x2 = arrays.input_pair(x1, x2)
    if diagonal and x2 is not None and len(x1) != len(x2):
        raise InputError(
            f"x1 has {len(x1)} examples and x2 has {len(x2)}; accepted with diagonal=True: as many"
        )
    apply = _hashable(apply)
    network, chosen, rest = _select(apply, params, selected)
    whole, some = network.whole(chosen, rest), network.given(rest)
    x1, x2 = pair_seen(apply, whole, x1, x2)
    outputs = count_outputs(apply, whole, x1, "x1")
    if not len(x1) or (x2 is not None and not len(x2)):
        method = "jacobian"  # the layers' tiles hold one example or more
    if method == "auto":
        example = jax.ShapeDtypeStruct(x1.shape[1:], x1.dtype)
        method = _cheapest(network, chosen, rest, example, full=full)
    if diagonal:
        batch = layerwise.examples_at_once(some, chosen, x1, outputs, on_cpu=2 * _DIAGONAL_BATCH)
        pairs = max(1, batch // 2)  # both are in a batch
        return _program(network, method, full, pairs)(chosen, x1, x1 if x2 is None else x2, rest)
    ntk = functools.partial(_program(network, method, full, None), rest=rest)
    # Every number of a pair, each as large as all parameters and inputs: no need to look closer.
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    numbers = sum(leaf.size for leaf in chosen) + x1[:1].size
    memory.check_pairs_fit(
        (x1, x2),
        8 * (n1 * n2 * outputs**2 + (n1 + n2) * outputs) * numbers,
        lambda: _OVERHEAD * costs.bytes_one_by_one(ntk, chosen, x1, x2),
        "`finite_kernel`",
        chosen,
    )
    return ntk(chosen, x1, x2)


@functools.lru_cache(maxsize=8)
def _program(
    network: "_Selected", method: str, full: bool, pairs: int | None
) -> Callable[[_Leaves, Array, Array | None, _Leaves], Array]:
    """Returns the kernel as a compiled function, kept for further parameters and inputs.

    With `pairs` it is the diagonal, so many of its pairs at a time.
    """

    @jax.jit
    def ntk(chosen: _Leaves, x1: Array, x2: Array | None, rest: _Leaves) -> Array:
        some = network.given(rest)
        if pairs is None:
            return _NTKS[method](some, chosen, x1, x2, full=full)

        def of_one(pair: tuple[Array, Array]) -> Array:
            return _NTKS[method](some, chosen, pair[0][None], pair[1][None], full=full)[0, 0]

        return lax.map(of_one, (x1, x2), batch_size=pairs)

    return ntk


def finite_kernel(
    apply: Apply, params: Params, *, selected: PyTree[bool] = True, method: Method = "auto"
) -> StagedKernel:
    """Returns the tangent kernel of a finite network as a function of inputs alone.

    It is the argument for `kernels.gram`: `kernel(x1, x2=None, *, full=False, diagonal=False)` is
    `empirical_ntk` with these arguments, and raises the same errors. By "layerwise", derivatives
    are computed once for each example where memory holds them, and otherwise once for several
    tiles; a function that calls `empirical_ntk` computes them again for every tile.
    """
    apply = _hashable(apply)
    _select(apply, params, selected)  # refuses parameters before the first call

    def kernel(
        x1: Examples, x2: Examples | None = None, *, full: bool = False, diagonal: bool = False
    ) -> Array:
        settings = {"selected": selected, "method": method}
        return empirical_ntk(apply, params, x1, x2, full=full, diagonal=diagonal, **settings)

    def stages(
        example: jax.ShapeDtypeStruct, *, full: bool = False, diagonal: bool = False
    ) -> Stages | None:
        require("method", method, one_of(*_METHODS))
        if full or diagonal:
            return None
        network, chosen, rest = _select(apply, params, selected)
        one = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
        count_outputs(apply, network.whole(chosen, rest), one, "x1")
        taken = method
        if method == "auto":
            taken = _cheapest(network, chosen, rest, example, full=False)
        return _stages(network, taken, example)._replace(given=(chosen, rest))

    return StagedKernel(kernel, stages)


@functools.lru_cache(maxsize=8)
def _stages(network: "_Selected", method: str, example: jax.ShapeDtypeStruct) -> Stages:
    """Returns the kernel's stages, of parameters that are given: the same functions for all."""

    def of(chosen: _Leaves, rest: _Leaves) -> Stages:
        some = network.given(rest)
        if method == "layerwise":
            return layerwise.layerwise_stages(some, chosen, example)
        return Stages(lambda x: x, functools.partial(_NTKS[method], some, chosen, full=False))

    def prepare(chosen: _Leaves, rest: _Leaves, x: Array) -> PyTree[Array]:
        return of(chosen, rest).prepare(x)

    def between(chosen: _Leaves, rest: _Leaves, one: PyTree, other: PyTree) -> Array:
        return of(chosen, rest).between(one, other)

    return Stages(*map(jax.default_matmul_precision("highest"), (prepare, between)))


def _hashable(apply: Apply) -> Apply:
    try:
        hash(apply)
    except TypeError:  # a new one for each call: then its program is not found again
        return functools.partial(apply)
    return apply


class _Selected(NamedTuple):
    """A network whose parameters are in two parts: the leaves of these choices, and the rest."""

    apply: Apply
    structure: Any
    choices: tuple[bool, ...]

    def whole(self, chosen: _Leaves, rest: _Leaves) -> Params:
        """Returns the tree of all parameters."""
        parts = {True: iter(chosen), False: iter(rest)}
        return jax.tree.unflatten(self.structure, [next(parts[choice]) for choice in self.choices])

    def given(self, rest: _Leaves) -> Apply:
        """Returns the network as a function of the parameters that are differentiated in."""

        def restricted(chosen: _Leaves, x: Array) -> Array:
            outputs = self.apply(self.whole(chosen, rest), x)
            # Products and sums of 16 bits would round, and overflow.
            return outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))

        return restricted


def _select(
    apply: Apply, params: PyTree[Array | np.ndarray], selected: PyTree[bool]
) -> tuple[_Selected, _Leaves, _Leaves]:
    """Returns the network of the selected parameters, these, and the others."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    if not leaves:
        raise InputError("params is a tree without arrays; accepted: one parameter or more")
    given = one_line(repr(selected))
    try:
        choices = jax.tree.leaves(jax.tree.broadcast(selected, params))
    except ValueError:
        raise InputError(
            f"selected is {given}; accepted: booleans in the structure of the parameters, "
            f"{jax.tree.map(lambda _: True, params)!r}, or one for a whole subtree of it"
        ) from None
    if not all(isinstance(choice, bool | np.bool_) for choice in choices) or not any(choices):
        raise InputError(f"selected is {given}; accepted: booleans, one True or more")
    parts: dict[bool, _Leaves] = {True: [], False: []}
    for choice, (path, leaf) in zip(choices, leaves, strict=True):
        parts[choice].append(floating_leaf(path, leaf, _LEAVE_OUT) if choice else jnp.asarray(leaf))
    return _Selected(apply, structure, tuple(choices)), parts[True], parts[False]


def _cheapest(
    network: _Selected, chosen: _Leaves, rest: _Leaves, example: jax.ShapeDtypeStruct, *, full: bool
) -> str:
    """Returns the method that takes the fewest operations for a pair of examples."""
    apply, params = network.apply, network.whole(chosen, rest)
    forms = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    alone = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
    c = jax.eval_shape(apply, forms, alone).shape[1]
    flops = costs.count_flops(apply, forms, alone)
    if flops is None:
        raise InputError(
            f"JAX_PLATFORMS is {jax.config.jax_platforms!r}, and operations are counted on a CPU; "
            f'accepted: it and "cpu" after a comma, or a method ({", ".join(_METHODS[1:])})'
        )
    by_layers = layerwise.layerwise_cost(network.given(rest), chosen, example, full=full)
    # Without dense layers worth it, layerwise is Jacobian contraction.
    return "vector_products" if _PASSES * c * (flops / 2) < by_layers else "layerwise"
