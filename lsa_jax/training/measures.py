"""Measures of lazy and rich training: how far a network is from the kernel at its start.

Each is a pure function of a network of any library, `apply(params, inputs [n, ...]) -> [n, c]`, of
its parameters at the start and now, and of a sub-sample of inputs, some also of targets:

    measures.kernel_distance(apply, params_0, params_t, inputs)
    measures.target_alignment(apply, params_0, params_t, inputs, targets)

`MEASURES` holds them by name, all with the same five arguments, and `measure` computes several at
once and shares their kernels. `sharpness` also takes a loss. 64 to 256 examples suffice to follow a
run. A tangent kernel takes at most n^2 c P operations for P parameters, in tiles of `TILE` x `TILE`
examples, which bound the memory. Programs are compiled once for each `apply`, so pass the same
object every time.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax import kernels
from lsa_jax.arrays import real_array, real_tree
from lsa_jax.checks import one_of, require
from lsa_jax.errors import InputError
from lsa_jax.reporting.courses import OF_WEIGHTS
from lsa_jax.training import losses
from lsa_jax.training.curvature import sharpness as sharpness

Params = PyTree[Float[Array | np.ndarray, "..."]]
Inputs = Shaped[Array | np.ndarray, "n ..."]
Matrix = Float[Array | np.ndarray, "n n"]
Number = Float[Array, ""]

# Examples a side of a tile of the tangent kernel.
TILE = 32

# Singular values of the outputs below this share of the largest are rounding.
_ROUNDING = 1e-5


# --- checks -------------------------------------------------------------------------------------


def _check_arrays(function: Callable) -> Callable:
    """Makes a measure check its arrays: `params...`, `inputs`, and two matrices of one shape."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        given = bound.arguments
        of_weights = set(given.get("names", ("",))) <= set(OF_WEIGHTS)
        for name, value in given.items():
            if name.startswith("params"):
                given[name] = _real_params(name, value)
            elif name == "inputs":
                given[name] = real_array(name, value, "n ...", empty=of_weights)
            elif name in ("first", "second"):
                given[name] = losses.floats(real_array(name, value, "n n"))
        for first, second in (("params_0", "params_t"), ("first", "second")):
            if {first, second} <= given.keys():
                shapes = (str(jax.tree.map(np.shape, given[name])) for name in (first, second))
                if len(set(shapes)) > 1:
                    raise InputError(
                        f"{first} and {second} differ in shapes; accepted: equal shapes"
                    )
        return function(*bound.args, **bound.kwargs)

    return call


def _real_params(name: str, params: PyTree) -> PyTree:
    """Returns parameters as floats; entries that are no numbers, such as None, stay."""
    return jax.tree.map(losses.floats, real_tree(name, params))


def check_alone(apply: Callable, params: PyTree, inputs: Array | np.ndarray) -> None:
    """Raises InputError where outputs of an example depend on the others in its batch.

    Kernels of pairs of examples, and measures made of them, have no meaning there.
    """
    few, rng = jnp.asarray(inputs[:2]), np.random.default_rng(0)

    def moved(leaf: Any) -> Array:  # outputs that cancel at the start are nothing but rounding
        size = 0.1 * (np.sqrt(np.mean(np.square(leaf))) or 1.0)
        return jnp.asarray(leaf + size * rng.standard_normal(np.shape(leaf)), leaf.dtype)

    params = jax.tree.map(moved, params)
    together, alone = (np.asarray(apply(params, x), np.float32)[:1] for x in (few, few[:1]))
    size = float(np.nanmax(np.abs(alone), initial=0.0))
    if not np.allclose(together, alone, rtol=0.05, atol=0.05 * size, equal_nan=True):
        raise InputError(
            "apply: outputs of an example depend on the others in its batch, as with BatchNorm; "
            "accepted: networks that compute each example by itself, such as those with LayerNorm"
        )


def _target_rows(
    apply: Callable, params: PyTree, inputs: Array | np.ndarray, targets: Any
) -> Array | np.ndarray:
    """Returns targets [n, k] to align kernels with; see `losses.target_rows`."""
    size = jax.eval_shape(apply, params, inputs).shape[-1]
    rows = losses.target_rows(size, targets)
    if len(rows) != len(inputs):
        raise InputError(
            f"targets has {len(rows)} rows; accepted: as many as inputs, {len(inputs)}"
        )
    return rows


# --- of kernel matrices -------------------------------------------------------------------------


@_check_arrays
@partial(jax.jit, static_argnums=0)
def tangent_kernel(apply: Callable, params: Params, inputs: Inputs) -> Float[Array, "n n"]:
    """Returns the finite NTK of a sub-sample, its mean over outputs, in tiles.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, each example by itself.
        params: where to differentiate.
        inputs: the sub-sample.
    """
    count = len(inputs)
    if count <= TILE:  # one tile, whose sides are the same
        matrix = kernels.empirical_ntk(apply, params, jnp.asarray(inputs))
        return jnp.triu(matrix) + jnp.triu(matrix, 1).T
    blocks = -(-count // TILE)
    rows = jnp.minimum(jnp.arange(blocks * TILE), count - 1).reshape(blocks, TILE)
    first, second = np.triu_indices(blocks)

    def tile(pair: tuple[Array, Array]) -> Array:
        x1, x2 = (jnp.asarray(inputs)[rows[side]] for side in pair)
        return kernels.empirical_ntk(apply, params, x1, x2)

    found = lax.map(tile, (jnp.asarray(first), jnp.asarray(second)))
    matrix = jnp.zeros((blocks, blocks, TILE, TILE), found.dtype).at[first, second].set(found)
    matrix = matrix.transpose(0, 2, 1, 3).reshape(blocks * TILE, blocks * TILE)[:count, :count]
    return jnp.triu(matrix) + jnp.triu(matrix, 1).T


@_check_arrays
def cosine(first: Matrix, second: Matrix) -> Number:
    """Returns <A, B> / (|A| |B|), with Frobenius products."""
    a, b = (jnp.asarray(m) / _norm(m) for m in (first, second))
    return jnp.sum(a * b)


def _norm(array: Float[Array | np.ndarray, "..."]) -> Number:
    """Returns the 2-norm of all entries, whose squares may be beyond the range of floats."""
    exponent = jnp.frexp(jnp.max(jnp.abs(jnp.asarray(array)), initial=0))[1]
    return jnp.ldexp(jnp.linalg.norm(jnp.ldexp(array, -exponent)), exponent)


@_check_arrays
def centred_alignment(first: Matrix, second: Matrix) -> Number:
    """Returns the centred kernel alignment (CKA) of two kernel matrices: 1 where they are alike.

    Source: Cortes, Mohri and Rostamizadeh, JMLR 2012, definition 4; Kornblith et al., ICML 2019.
    """
    return cosine(*(_centred(_centred(m).T) for m in (first, second)))


def _centred(rows: Float[Array | np.ndarray, "n _"]) -> Float[Array, "n _"]:
    return rows - jnp.mean(rows, axis=0, keepdims=True)


# --- of networks --------------------------------------------------------------------------------


def kernel_distance(apply: Callable, params_0: Params, params_t: Params, inputs: Inputs) -> Number:
    """Returns S = 1 - <K_t, K_0> / (|K_t| |K_0|) of the tangent kernels: 0 in the lazy limit.

    Source: Fort et al., 2020 (arXiv 2010.15110), section 3.
    """
    kernels_known = (tangent_kernel(apply, p, inputs) for p in (params_0, params_t))
    return OF_KERNELS["kernel_distance"](*kernels_known, None)


def kernel_alignment(apply: Callable, params_0: Params, params_t: Params, inputs: Inputs) -> Number:
    """Returns the CKA of the tangent kernel now to the one at the start."""
    kernels_known = (tangent_kernel(apply, p, inputs) for p in (params_0, params_t))
    return OF_KERNELS["kernel_alignment"](*kernels_known, None)


@_check_arrays
def target_alignment(
    apply: Callable,
    params_0: Params,
    params_t: Params,
    inputs: Inputs,
    targets: Shaped[Array | np.ndarray, "n ..."],
) -> Number:
    """Returns the CKA of the tangent kernel now to that of the targets, y y^T."""
    del params_0
    rows = _target_rows(apply, params_t, inputs, targets)
    return centred_alignment(tangent_kernel(apply, params_t, inputs), _kernel_of(rows))


def _kernel_of(rows: Float[Array | np.ndarray, "n k"]) -> Float[Array, "n n"]:
    return jnp.matmul(rows, jnp.transpose(rows), precision="highest")


@_check_arrays
def weight_movement(params_0: Params, params_t: Params) -> dict[str, Number]:
    """Returns |W_t - W_0| / |W_0| of each layer: all arrays in one place of the parameters' tree.

    Infinite for a layer that starts at zero and moves, 0 for any that does not.

    Source: Chizat, Oyallon and Bach, 2019.
    """
    norms: dict[str, tuple[list[Array], list[Array]]] = {}
    start, now = (jax.tree.leaves(params) for params in (params_0, params_t))
    for name, a, b in zip(kernels.leaf_names(params_0), start, now, strict=True):
        moved, sizes = norms.setdefault(name.rpartition("/")[0] or name, ([], []))
        moved.append(_norm(jnp.asarray(b) - jnp.asarray(a)))
        sizes.append(_norm(a))

    def ratio(moved: list[Array], sizes: list[Array]) -> Number:
        moved, size = (_norm(jnp.stack(part)) for part in (moved, sizes))
        return jnp.where(moved > 0, moved / size, 0)

    return {layer: ratio(*both) for layer, both in norms.items()}


@_check_arrays
def activation_change(
    activations: Callable, params_0: Params, params_t: Params, inputs: Inputs
) -> dict[str, Number]:
    """Returns the root mean square change of each activation and of the network's outputs.

    The coordinate check compares it over widths: it does not depend on the width where features
    are learned at any width, and falls with the width in the lazy limit.

    Args:
        activations: of a `Model`, or `activations_of` it: `(params, x) -> (outputs, {layer: [n,
            ...]})`.
        params_0: at the start.
        params_t: now.
        inputs: the sub-sample.

    Returns:
        Numbers by the layer's path, and "outputs" for the network's outputs.

    Source: Yang et al., Tensor Programs V, 2022 (arXiv 2203.03466), appendix D.1.
    """
    start, now = (activations(params, inputs) for params in (params_0, params_t))
    pairs = {layer: (start[1][layer], now[1][layer]) for layer in start[1]}
    pairs["outputs"] = (start[0], now[0])
    return {layer: jnp.sqrt(jnp.mean((b - a) ** 2)) for layer, (a, b) in pairs.items()}


@_check_arrays
def agop_correlation(apply: Callable, params_t: Params, inputs: Inputs) -> dict[str, Number]:
    """Returns the correlation of W^T W and the average gradient outer product, by layer.

    Pearson's correlation of the two matrices' entries for each dense layer; a convolution's inputs
    are its windows. By the neural feature ansatz they are proportional in networks that learned
    features.

    Source: Radhakrishnan, Beaglehole, Pandit and Belkin, Science 2024 (arXiv 2212.13881), for the
    ansatz. Their code (github.com/aradha/agop_feature_learning, ansatz_verification) also subtracts
    the means. It compares the same matrices for convolutions, but for dense layers W_t - W_0 in
    place of W, with the square root of the outer product.

    Raises:
        InputError: no dense layer or convolution is found in the network.
    """
    found = kernels.layer_gradients(apply, params_t, inputs)
    if not found:
        raise InputError("the network has no dense layer or convolution; accepted: one or more")
    return {layer.name: _correlation(layer.weight, layer.outer_product) for layer in found}


@jax.default_matmul_precision("highest")
def _correlation(weight: Float[Array, "k f"], outer_product: Float[Array, "k k"]) -> Number:
    weight = weight / _norm(weight)
    gram = weight @ weight.T
    return cosine(gram - jnp.mean(gram), outer_product - jnp.mean(outer_product))


@_check_arrays
@jax.default_matmul_precision("highest")
def low_rank_distance(apply: Callable, params_t: Params, inputs: Inputs) -> Number:
    """Returns D_LR, the distance of the last features from the fewest that the outputs need.

    1 - CKA(K, P) with K the kernel of the last dense layer's inputs, and P the projection onto the
    span of the centred outputs: 0 where the features are exactly the learned functions, all of one
    size (neural collapse), near 1 in the lazy limit. It is no comparison with the start.

    Source: Nam et al., 2024 (arXiv 2410.04264), definition 1: 1 - CKA(T, a 1 1^T + b P), with T the
    operator of the features, P the projection onto the span of the outputs, and a, b > 0; CKA
    removes the constant. Outputs are centred here and not there: the same where the constant lies
    in their span, or orthogonal to it. Known to us from secondary accounts only.
    """
    features = losses.floats(kernels.last_layer_inputs(apply, params_t, inputs))
    features = features / _norm(features)
    basis, sizes, _ = jnp.linalg.svd(_centred(apply(params_t, inputs)), full_matrices=False)
    spanned = basis * (sizes > _ROUNDING * sizes[0])[None]
    return 1 - centred_alignment(features @ features.T, spanned @ spanned.T)


@_check_arrays
@jax.default_matmul_precision("highest")
def effective_rank(apply: Callable, params_t: Params, inputs: Inputs) -> Number:
    """Returns the effective rank of the last dense layer's centred inputs.

    exp(-sum_i p_i log p_i) with p_i the singular values over their sum: from 1 to the number of
    features.

    Source: Roy and Vetterli, EUSIPCO 2007, definition 1.
    """
    features = _centred(kernels.last_layer_inputs(apply, params_t, inputs))
    features = features / _norm(features)
    sizes = _singular_values(features if len(features) <= features.shape[1] else features.T)
    share = sizes / jnp.sum(sizes)
    return jnp.exp(-jnp.sum(share * jnp.log(jnp.where(share > 0, share, 1))))


def _singular_values(rows: Float[Array, "n k"]) -> Float[Array, " n"]:
    """Returns the singular values of a few long rows.

    By the triangle of the modified Gram-Schmidt process, as stable as by reflections. LAPACK's
    threads wait for each other at each column, a hundred times as long on busy cores.
    """
    count = len(rows)

    def orthogonalise(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, triangle = carry
        size = jnp.linalg.norm(left[i])
        direction = left[i] / jnp.where(size > 0, size, 1)
        after = jnp.arange(count) > i
        along = jnp.where(after, left @ direction, 0)
        return left - jnp.outer(along, direction), triangle.at[i].set(along.at[i].set(size))

    start = (rows, jnp.zeros((count, count), rows.dtype))
    return jnp.linalg.svd(lax.fori_loop(0, count, orthogonalise, start)[1], compute_uv=False)


@_check_arrays
@partial(jax.jit, static_argnums=(0, 4))
def linearization_residual(
    apply: Callable, params_0: Params, params_t: Params, inputs: Inputs, centred: bool = False
) -> tuple[Number, Number]:
    """Returns |f_t - f_0 - J_0 (theta_t - theta_0)|^2 and |f_t - f_0|^2, summed over the inputs.

    The root of their ratio is c, the part of the network's change that its linearisation misses.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, each example by itself.
        params_0: at the start.
        params_t: now.
        inputs: examples, usually of the test set.
        centred: whether to take out the mean of an example's outputs, which changes nothing under
            softmax cross-entropy.

    Source: Chizat, Oyallon and Bach (2019), section 1; Geiger et al. (2020).
    """
    start, end = apply(params_0, inputs), apply(params_t, inputs)
    linear = kernels.linearize(apply, params_0)(params_t, inputs)
    missed, moved = (
        a - a.mean(1, keepdims=True) if centred else a for a in (end - linear, end - start)
    )
    return jnp.sum(missed**2), jnp.sum(moved**2)


def linearization_gap(
    apply: Callable, params_0: Params, params_t: Params, inputs: Inputs
) -> Number:
    """Returns |f_t - f_0 - J_0 (theta_t - theta_0)| / |f_t - f_0|: 0 in the lazy limit.

    It is c of `linearization_residual`, without centring; NaN where the outputs have not moved.
    """
    missed, moved = linearization_residual(apply, params_0, params_t, inputs)
    return jnp.sqrt(missed / moved)


# --- by name ------------------------------------------------------------------------------------

# Each: (apply, params_0, params_t, inputs, targets) -> a number, or numbers by layer.
MEASURES: dict[str, Callable] = {
    "kernel_distance": lambda apply, p0, pt, x, y: kernel_distance(apply, p0, pt, x),
    "kernel_alignment": lambda apply, p0, pt, x, y: kernel_alignment(apply, p0, pt, x),
    "target_alignment": target_alignment,
    "weight_movement": lambda apply, p0, pt, x, y: weight_movement(p0, pt),
    "agop_correlation": lambda apply, p0, pt, x, y: agop_correlation(apply, pt, x),
    "low_rank_distance": lambda apply, p0, pt, x, y: low_rank_distance(apply, pt, x),
    "effective_rank": lambda apply, p0, pt, x, y: effective_rank(apply, pt, x),
    "linearization_gap": lambda apply, p0, pt, x, y: linearization_gap(apply, p0, pt, x),
}

# The measures that are functions of the kernels at the start and now, and of the targets.
OF_KERNELS: dict[str, Callable] = {
    "kernel_distance": lambda k0, kt, y: 1 - cosine(kt, k0),
    "kernel_alignment": lambda k0, kt, y: centred_alignment(kt, k0),
    "target_alignment": lambda k0, kt, y: centred_alignment(kt, _kernel_of(y)),
}


@partial(jax.jit, static_argnums=(0, 1))
def _compute(
    names: tuple[str, ...], apply: Callable, given: tuple, kernels_known: tuple | None
) -> dict[str, Any]:
    """Computes measures of `given`: parameters at the start and now, inputs and targets."""
    *both, inputs, targets = given
    if kernels_known is None and OF_KERNELS.keys() & set(names):
        kernels_known = tuple(tangent_kernel(apply, params, inputs) for params in both)
    return {
        name: OF_KERNELS[name](*kernels_known, targets)
        if name in OF_KERNELS
        else MEASURES[name](apply, *given)
        for name in names
    }


@_check_arrays
def measure(
    names: Sequence[str],
    apply: Callable,
    params_0: Params,
    params_t: Params,
    inputs: Inputs,
    targets: Shaped[Array | np.ndarray, "n ..."],
    kernels_known: tuple[Matrix, Matrix] | None = None,
) -> dict[str, float]:
    """Computes several measures at once, with the kernels that they share computed once.

    Args:
        names: of `MEASURES`.
        apply: `(params, x [n, ...]) -> outputs [n, c]`, each example by itself.
        params_0: at the start.
        params_t: now.
        inputs: the sub-sample.
        targets: rows [n, ...], class numbers, integers [n], or, of one output, numbers [n].
        kernels_known: tangent kernels of the sub-sample at the start and now, where known.

    Returns:
        Numbers by name; a layer's are "weight_movement/Conv_0".

    Raises:
        InputError: a name is not one of these, or an array is not accepted.
    """
    for name in names:
        require("measures", name, one_of(*MEASURES))
    if "target_alignment" in names:
        targets = _target_rows(apply, params_t, inputs, targets)
    found = _compute(tuple(names), apply, (params_0, params_t, inputs, targets), kernels_known)
    numbers = {}
    for name, value in found.items():
        layers = {f"/{layer}": v for layer, v in value.items()} if isinstance(value, dict) else None
        numbers |= {f"{name}{layer}": float(v) for layer, v in (layers or {"": value}).items()}
    return numbers
