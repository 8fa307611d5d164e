"""The tangent kernel of a finite network at given parameters.

It is computed in one of several ways. With P parameters and a forward pass of F
operations, for each pair of examples:

* "jacobian" takes O(c P) time, O(c^2 P) for the full kernel; O((n1 + n2) c P) memory;
* "vector_products" takes O(c F) time for either: for many outputs;
* "layerwise" is "jacobian" but for dense layers, whose k inputs and f outputs count k + c f
  instead of c k f, and at p positions p^2 as much, where that is less; without `x2` it computes
  little more than half of the pairs. Convolutions of images are dense layers at the positions
  of their windows.

All are exact, with products in full precision also on accelerators whose default is less (TF32).
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax import backend
from lsa_jax.checks import one_of, require
from lsa_jax.errors import InputError
from lsa_jax.kernels.finite import contraction, layerwise
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages

_NTKS = {
    "jacobian": contraction.by_jacobians,
    "vector_products": contraction.by_vector_products,
    "layerwise": layerwise.layerwise_ntk,
}
_METHODS = ("auto", *_NTKS)

# Forward passes that one column of the kernel takes by vector products: a linearised forward pass
# and a backward one, each twice as long as a forward one.
_PASSES = 4

# What a call takes in all over the arrays that it holds: 1.1 to 2.5 times, as measured.
_BESIDE = 2

# Pairs of the diagonal that a CPU computes at a time. An accelerator takes as many as hold half of
# the examples that it differentiates at a time elsewhere: a pair is two.
_DIAGONAL_BATCH = 16


def _check_pair(x1: Any, x2: Any, *, diagonal: bool) -> None:
    if x2 is not None and x2.shape[1:] != x1.shape[1:]:
        raise InputError(
            f"x1 is {x1.shape} and x2 is {x2.shape}; accepted: equal shapes but for the first axis"
        )
    if diagonal and x2 is not None and len(x1) != len(x2):
        raise InputError(
            f"x1 has {len(x1)} examples and x2 has {len(x2)}; accepted with diagonal=True: as many"
        )


@jax.default_matmul_precision("highest")
def empirical_ntk(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    full: bool = False,
    diagonal: bool = False,
    selected: PyTree[bool] = True,
    method: Literal["auto", "jacobian", "vector_products", "layerwise"] = "auto",
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 c c"] | Float[Array, " n"] | Float[Array, "n c c"]:
    """Computes the neural tangent kernel of a finite network at its parameters.

    Theta(x, x')_ij = df_i(x)/dtheta . df_j(x')/dtheta, an [n1, n2, c, c] array. Its average over
    the c outputs, sum_i Theta_ii / c, is what converges to the infinite-width kernel [n1, n2].
    Each example goes through `apply` by itself: one in which examples of a batch act on one another
    (batch normalisation) is not the function whose kernel this is.

    All methods are exact; "auto" takes the one with the fewest operations. To stay within a memory
    limit, give `finite_kernel` to `kernels.gram`.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, any pure function.
        params: where to differentiate: at initialisation, or after training.
        x1: first inputs.
        x2: second inputs; None means x1 against itself.
        full: return the whole kernel rather than its average over outputs.
        diagonal: only the pairs of an example of x1 with the one of x2 in the same place.
        selected: which parameters to differentiate in: a tree of booleans, whose leaves may stand
            for whole subtrees of the parameters, such as {"Conv_0": True, "Dense_0": False}.
        method: which algorithm.

    Returns:
        [n1, n2], or [n1, n2, c, c] if `full`; without the second axis if `diagonal`.

    Raises:
        InputError: shapes, method or selection are not accepted, or, but in jit, do not fit memory.

    Source: Novak, Sohl-Dickstein and Schoenholz, Fast finite width neural tangent kernel, 2022,
    sections 3.2 to 3.4.
    """
    require("method", method, one_of(*_METHODS))
    _check_pair(x1, x2, diagonal=diagonal)
    outputs = _check_outputs(apply, params, x1)
    some, chosen = _restricted(apply, params, selected)
    if not len(x1) or (x2 is not None and not len(x2)):
        method = "jacobian"  # the layers' tiles hold one example or more
    if method == "auto":
        example = jax.ShapeDtypeStruct(x1.shape[1:], x1.dtype)
        method = _cheapest(apply, params, some, chosen, example, full=full)
    ntk = _implementation(some, method, full=full)
    if not diagonal:
        _check_fits(ntk, chosen, x1, x2, outputs)
        return ntk(chosen, x1, x2)

    def of_one(pair: tuple[Array, Array]) -> Array:
        return ntk(chosen, pair[0][None], pair[1][None])[0, 0]

    in_both = layerwise.examples_at_once(some, chosen, x1, outputs, on_cpu=2 * _DIAGONAL_BATCH)
    return lax.map(of_one, (x1, x1 if x2 is None else x2), batch_size=max(1, in_both // 2))


def finite_kernel(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    *,
    selected: PyTree[bool] = True,
    method: Literal["auto", "jacobian", "vector_products", "layerwise"] = "auto",
) -> StagedKernel:
    """Returns the tangent kernel of a finite network as a function of inputs alone.

    It is what `kernels.gram` is to be given. By "layerwise", derivatives are then computed once for
    each example where memory holds them, and otherwise once for several tiles; a function that
    calls `empirical_ntk` computes them again for every tile.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, any pure function.
        params: where to differentiate: at initialisation, or after training.
        selected: which parameters to differentiate in.
        method: which algorithm.

    Returns:
        `kernel(x1, x2=None, *, full=False, diagonal=False)`: `empirical_ntk` with these arguments.
        It raises what that raises.
    """

    def kernel(
        x1: Shaped[Array | np.ndarray, "n1 ..."],
        x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
        *,
        full: bool = False,
        diagonal: bool = False,
    ) -> Array:
        settings = {"selected": selected, "method": method}
        return empirical_ntk(apply, params, x1, x2, full=full, diagonal=diagonal, **settings)

    def stages(
        example: jax.ShapeDtypeStruct, *, full: bool = False, diagonal: bool = False
    ) -> Stages | None:
        if full or diagonal:
            return None
        _check_outputs(apply, params, jax.ShapeDtypeStruct((1, *example.shape), example.dtype))
        some, chosen = _restricted(apply, params, selected)
        taken = method
        if method == "auto":
            taken = _cheapest(apply, params, some, chosen, example, full=False)
        if taken != "layerwise":
            return None
        found = layerwise.layerwise_stages(some, chosen, example)
        return Stages(*map(jax.default_matmul_precision("highest"), found))

    return StagedKernel(kernel, stages)


def _check_fits(
    ntk: Callable[[Any, Array, Array | None], Array],
    params: list[Array | np.ndarray],
    x1: Array | np.ndarray,
    x2: Array | np.ndarray | None,
    outputs: int,
) -> None:
    """Raises InputError where computing all pairs at once does not fit the memory.

    Within `jax.jit` the memory is the compiled program's, of which who compiles it has an account.
    """
    sides = [x1] if x2 is None else [x1, x2]
    if any(isinstance(array, jax.core.Tracer) for array in (*params, *sides)):
        return
    # Every number of a pair, each as large as all parameters and inputs: no need to look closer.
    pairs = len(sides[0]) * len(sides[-1]) * outputs**2 + sum(map(len, sides)) * outputs
    numbers = sum(leaf.size for leaf in params) + x1[:1].size
    memory.check_fits_device(
        f"the kernel of all examples of {' and '.join(str(x.shape) for x in sides)} at once",
        8 * pairs * numbers,
        lambda: _BESIDE * backend.bytes_one_by_one(ntk, params, x1, x2),
        "fewer examples at a time, or `finite_kernel` in `kernels.gram`, which goes by tiles",
    )


def _check_outputs(apply: Callable, params: PyTree, x1: Any) -> int:
    """Returns how many outputs an example has."""
    outputs = jax.eval_shape(apply, params, x1)
    if outputs.ndim != 2 or outputs.shape[0] != x1.shape[0]:
        raise InputError(
            f"apply turns x1 {x1.shape} into {outputs.shape}; accepted: outputs [n, c]"
        )
    return outputs.shape[1]


def _restricted(
    apply: Callable[[Any, Array], Array], params: PyTree[Array | np.ndarray], selected: PyTree[bool]
) -> tuple[Callable[[list[Array], Array], Array], list[Array | np.ndarray]]:
    """Returns the network as a function of the selected parameters alone, and those."""
    leaves, structure = jax.tree.flatten(params)
    try:
        choices = jax.tree.leaves(jax.tree.broadcast(selected, params))
    except ValueError:
        raise InputError(
            f"selected is {selected!r}; accepted: booleans in the structure of the parameters, "
            f"{jax.tree.map(lambda _: True, params)!r}, or one for a whole subtree of it"
        ) from None
    if not all(isinstance(choice, bool) for choice in choices) or not any(choices):
        raise InputError(f"selected is {selected!r}; accepted: booleans, one True or more")

    def restricted(some: list[Array | np.ndarray], x: Array) -> Array:
        chosen = iter(some)
        merged = [
            next(chosen) if choice else leaf for leaf, choice in zip(leaves, choices, strict=True)
        ]
        return apply(jax.tree.unflatten(structure, merged), x)

    return restricted, [leaf for leaf, choice in zip(leaves, choices, strict=True) if choice]


def _implementation(
    apply: Callable[[Any, Array], Array], method: str, *, full: bool
) -> Callable[[Any, Array, Array | None], Array]:
    return lambda params, x1, x2: _NTKS[method](apply, params, x1, x2, full=full)


def _cheapest(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Array | np.ndarray],
    some: Callable[[list[Array], Array], Array],
    chosen: list[Array | np.ndarray],
    example: jax.ShapeDtypeStruct,
    *,
    full: bool,
) -> str:
    """Returns the method that takes the fewest operations for a pair of examples."""
    forms = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    alone = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
    c = jax.eval_shape(apply, forms, alone).shape[1]
    flops = backend.count_flops(apply, forms, alone)
    if flops is None:
        raise InputError(
            f"JAX_PLATFORMS is {jax.config.jax_platforms!r}, and operations are counted on a CPU; "
            f'accepted: it and "cpu" after a comma, or a method ({", ".join(_METHODS[1:])})'
        )
    forward = flops / 2
    by_layers = layerwise.layerwise_cost(some, chosen, example.shape, example.dtype, full=full)
    # Without dense layers worth it, layerwise is Jacobian contraction.
    return "vector_products" if _PASSES * c * forward < by_layers else "layerwise"
