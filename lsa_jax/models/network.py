"""A network of layers at finite and at infinite width, from one description."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jaxtyping import Array, Float, Key

from lsa_jax import arrays
from lsa_jax.checks import require
from lsa_jax.errors import InputError, one_line
from lsa_jax.kernels.infinite.kernel import kernel_of_steps
from lsa_jax.kernels.matrices.staged import StagedKernel
from lsa_jax.models import mup
from lsa_jax.models.layers.affine import Conv
from lsa_jax.models.layers.base import DTYPES, PARAMETERIZATIONS, Layer, LayerModule, shape_of
from lsa_jax.models.layers.composition import Serial
from lsa_jax.models.layers.elementwise import Nonlinearity
from lsa_jax.models.layers.normalization import STATISTICS, BatchNorm
from lsa_jax.models.layers.pooling import MaxPool
from lsa_jax.models.model import Model, NoKernel, batch_of_one

_MOVING = NoKernel("with parameterization='mup' its features move")


def network(
    layers: Sequence[Layer],
    *,
    parameterization: Literal["ntk", "standard", "mup"] = "ntk",
    dtype: Literal["float32", "bfloat16"] = "float32",
    base: Sequence[Layer] | None = None,
) -> Model:
    """Returns a sequence of layers as a flax network with its infinite-width kernel.

    In the "ntk" parameterisation the kernel is the limit of the finite NTK as all widths grow. In
    the "standard" one the NTK grows with the widths, and `kernel` is its leading part at the given
    widths (Sohl-Dickstein et al., 2020). The NNGP is the same in both. In "mup" there is no kernel:
    in its limit features move.

    Args:
        layers: in order; outputs must be [n, c].
        parameterization: "ntk" (parameters are N(0, 1), factors are part of the computation),
            "standard" (parameters hold the factors) or "mup" ("standard" scaled with the width;
            it also needs the learning rates of `rate_factors`: see `models.mup`).
        dtype: of the computation; parameters and outputs are float32.
        base: for "mup": the same layers at the width where "mup" is "standard". Not used by the
            other parameterisations.

    Returns:
        The network. `init`, `apply` and `activations` raise InputError on inputs that do not fit
        the layers; `kernel` refuses, and is false, if a layer (BatchNorm) has no infinite-width
        limit, and in "mup"; `rate_factors` exists only in "mup".

    Raises:
        InputError: an argument is not accepted.
    """
    require("parameterization", parameterization, PARAMETERIZATIONS)
    require("dtype", dtype, DTYPES)
    if parameterization != "mup":
        return _read(Serial(layers), parameterization, dtype)
    if base is None:
        raise InputError(
            "base is None; accepted with parameterization='mup': the same layers at the width "
            "where it is the standard parameterisation"
        )
    return _in_mup(*(_read(Serial(some), "standard", dtype) for some in (layers, base)))


def _read(
    description: Serial,
    parameterization: Literal["ntk", "standard"],
    dtype: Literal["float32", "bfloat16"],
) -> Model:
    """Returns the network and the kernel of a description."""
    module = LayerModule(description, parameterization, dtype)
    check_shape = _shape_check(description)

    def run(
        params: Any, inputs: Any, counted: Any = None, fixed: Any = None, **settings: Any
    ) -> Any:
        x = arrays.inputs("inputs", inputs)
        check_shape(x.shape[1:])
        given, x = {"params": arrays.real_tree("params", params)}, jnp.asarray(x, dtype)
        given |= {} if fixed is None else {STATISTICS: fixed}
        if counted is not None and np.shape(counted) != x.shape[:1]:
            raise InputError(f"counted is {np.shape(counted)}; accepted: {x.shape[:1]}, as inputs")
        own = module.clone(counted=counted, fixed=fixed is not None)
        return _run(own, given, x, settings)

    def init(key: Key[Array, ""], input_shape: Any) -> dict[str, Any]:
        key, shape = arrays.random_key("key", key), batch_of_one(input_shape).shape
        check_shape(shape[1:])
        example = jax.ShapeDtypeStruct(shape, dtype)
        return module.lazy_init(key, example, method=_run_and_check).get("params", {})

    def apply(
        params: dict[str, Any],
        inputs: Float[Array | np.ndarray, "n ..."],
        key: Key[Array, ""] | None = None,
        counted: Float[Array, " n"] | None = None,
        statistics: Any = None,
    ) -> Float[Array, "n c"]:
        draws = {} if key is None else {"dropout": arrays.random_key("key", key)}
        return run(params, inputs, counted, statistics, rngs=draws).astype(jnp.float32)

    def statistics(params: dict[str, Any], inputs: Float[Array | np.ndarray, "n ..."]) -> Any:
        return run(params, inputs, mutable=STATISTICS)[1][STATISTICS]

    def activations(
        params: dict[str, Any],
        inputs: Float[Array | np.ndarray, "n ..."],
        counted: Float[Array, " n"] | None = None,
    ) -> tuple[Float[Array, "n c"], dict[str, Float[Array, "n ..."]]]:
        outputs, captured = run(
            params,
            inputs,
            counted,
            capture_intermediates=lambda layer, _: isinstance(layer.layer, Nonlinearity),
            mutable="intermediates",
        )
        # A path ends with the name of the method, and holds the outputs of each of its calls.
        paths = traverse_util.flatten_dict(captured.get("intermediates", {}))
        return outputs.astype(jnp.float32), {"/".join(p[:-1]): v for p, (v,) in paths.items()}

    kernel = _kernel(description, parameterization, init)
    normalises = any(isinstance(layer, BatchNorm) for layer in _all_layers(description))
    return Model(init, apply, kernel, activations, statistics=statistics if normalises else None)


def _run(module: LayerModule, given: Any, x: Float[Array, "n ..."], settings: Any) -> Any:
    """Runs a network; raises InputError for parameters that do not fit layers and inputs."""
    try:
        return module.apply(given, x, **settings)
    except (
        flax.errors.ScopeParamShapeError,
        flax.errors.ScopeParamNotFoundError,
        flax.errors.ScopeCollectionNotFound,
        TypeError,  # of a tree in place of an array
    ) as error:
        reason = one_line(error)
        raise InputError(
            f"inputs has shape {x.shape}, and params do not fit it: {reason:.200}; accepted: "
            f"params of init(key, {x.shape[1:]})"
        ) from error


def _shape_check(description: Layer) -> Callable[[tuple[int, ...]], None]:
    """Returns a check of examples' shapes, which warns once a shape where layers convolve."""
    convolves = any(isinstance(layer, Conv) for layer in _all_layers(description))

    @functools.lru_cache(maxsize=16)
    def check(shape: tuple[int, ...]) -> None:
        if not math.prod(shape):
            raise InputError(f"inputs has examples of shape {shape}; accepted: sizes 1 or more")
        if convolves:
            arrays.warn_channels_first("inputs", shape)

    return check


def _all_layers(layer: Layer) -> Iterator[Layer]:
    """Yields a layer and the layers inside it, outer ones first."""
    yield layer
    for part in jax.tree.leaves(list(getattr(layer, "__dict__", {}).values())):
        if isinstance(part, Layer):
            yield from _all_layers(part)


def _in_mup(model: Model, base: Model) -> Model:
    """Returns a network of the standard parameterisation in muP, given its base."""

    def shapes(model: Model, input_shape: Any) -> dict[str, Any]:
        return jax.eval_shape(lambda key: model.init(key, input_shape), jax.random.key(0))

    def init(key: Key[Array, ""], input_shape: Any) -> dict[str, Any]:
        return mup.scale_initial(model.init(key, input_shape), shapes(base, input_shape))

    def rate_factors(input_shape: tuple[int, ...], optimizer: str) -> dict[str, Any]:
        of = shapes(model, input_shape), shapes(base, input_shape)
        return mup.rate_factors(*of, optimizer)

    return model._replace(init=init, kernel=_MOVING, rate_factors=rate_factors)


def _kernel(
    description: Serial, parameterization: Literal["ntk", "standard"], init: Callable
) -> StagedKernel | NoKernel:
    """Returns the infinite-width kernel; it checks inputs as the finite network does."""
    limit = description.infinite(parameterization)
    if limit is None:
        *_, innermost = (
            layer for layer in _all_layers(description) if layer.infinite(parameterization) is None
        )
        estimated = ", whose kernel models.sampled_kernel estimates" * isinstance(
            innermost, MaxPool
        )
        return NoKernel(f"it has the layer {type(innermost).__name__}{estimated}")

    # Once a shape: tracing the network takes longer than the kernel of a few examples.
    @functools.lru_cache(maxsize=16)
    def check(shape: tuple[int, ...]) -> None:
        jax.eval_shape(lambda key: init(key, shape), jax.random.key(0))

    return kernel_of_steps(limit, check)


def _run_and_check(module: LayerModule, x: Float[Array, "n ..."]) -> Float[Array, "n c"]:
    outputs = module(x)
    if outputs.ndim != 2:
        raise InputError(
            f"the layers end in outputs {shape_of(outputs)}; accepted: [n, c], "
            "as from Flatten or GlobalAvgPool followed by Dense"
        )
    return outputs
