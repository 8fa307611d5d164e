"""A network: its initialisation, outputs and infinite-width kernel."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from lsa_jax.checks import Kind, integer, require
from lsa_jax.errors import InputError

_INPUT_SHAPE = Kind(
    lambda shape: isinstance(shape, tuple) and shape and all(map(integer(1).accepts, shape)),
    "one example's shape, such as (28, 28, 1), each size 1 or more, or one example, inputs[0]",
    tuple,
)


class ExampleShape(tuple):
    """One example's shape, with the type of its entries as `dtype`."""

    dtype: Any = np.float32

    @classmethod
    def of(cls, inputs: Any) -> "ExampleShape":
        """Returns the shape and type of each of these inputs [n, ...]."""
        shape = cls(np.shape(inputs)[1:])
        shape.dtype = getattr(inputs, "dtype", cls.dtype)
        return shape


def batch_of_one(input_shape: Any) -> jax.ShapeDtypeStruct:
    """Returns the form of a batch of one example.

    Args:
        input_shape: one example's shape, whose entries are float32 unless it is an `ExampleShape`,
            or one example, an array or a `jax.ShapeDtypeStruct`.

    Raises:
        InputError: none of these, an axis of size 0, or entries that are no numbers.
    """
    shape = input_shape if isinstance(input_shape, tuple) else getattr(input_shape, "shape", None)
    require("input_shape", input_shape if shape is None else shape, _INPUT_SHAPE)
    dtype = getattr(input_shape, "dtype", ExampleShape.dtype)
    if not (jax.dtypes.issubdtype(dtype, np.number) or dtype == np.bool_):
        raise InputError(f"input_shape is an array of {dtype}; accepted: {_INPUT_SHAPE.accepted}")
    return jax.ShapeDtypeStruct((1, *shape), jax.dtypes.canonicalize_dtype(dtype))


@functools.lru_cache(maxsize=64)  # the same function for the same kernel, so compiled once
def _getting(kernel: Callable, get: str) -> Callable:
    return functools.partial(kernel, get=get)


class NoKernel:
    """The kernel of a network without an infinite-width limit: false, and raises when called.

    Attributes:
        reason: why there is none.
    """

    def __init__(self, reason: str) -> None:
        """Stores the reason."""
        self.reason = reason

    def __bool__(self) -> bool:
        return False

    def __call__(self, *inputs: Any, **settings: Any) -> NoReturn:
        """Raises InputError."""
        raise InputError(
            f"kernel of a network that has none at infinite width: {self.reason}; accepted: "
            "kernels.finite_kernel(model.apply, params) or kernels.empirical_ntk, at finite width"
        )

    transformed = transform_size = __call__


class Model(NamedTuple):
    """Pure functions of one network.

    Attributes:
        init: `(key, input_shape) -> params`, with `input_shape` without the batch axis. Networks of
            layers and of other libraries also take one example there, an array or a
            `jax.ShapeDtypeStruct`, so that tokens stay integers.
        apply: `(params, inputs [n, ...]) -> outputs [n, c]`. Networks of layers and of other
            libraries also take `key`, to draw masks as in training. Networks of layers also take
            `counted` [n]: 1 for the examples that count in statistics of the batch (`BatchNorm`), 0
            for the ones that only fill it up. Training passes both to any `apply` that takes them
            by these names; an `apply` whose examples act on one another should take `counted`.
        kernel: `(x1 [n1, ...], x2=None, get="ntk" | "nngp") -> [n1, n2]` of the same network at
            infinite width; `x2=None` means x1 against itself. Networks of layers also take
            `method`: see `kernels.infinite.kernel`. Where there is no such limit, a `NoKernel`
            or None, which are false.
        activations: `(params, inputs [n, ...], counted=None) -> (outputs [n, c], {layer: [n,
            ...]})`, with every nonlinearity's output by the layer's path in the network, or None.
        rate_factors: `(input_shape, optimizer) -> numbers in the parameters' structure`, factors
            on the learning rate of each parameter under an optimiser of this name, for
            `training.make_optimizer`. None for one rate.
        next_state: `(params, inputs [n, ...], key) -> entries of params`, at its top level, after a
            training step on a batch: state that no gradient moves, such as the running statistics
            of batch normalisation. {} or None where there is none. `apply` without a key evaluates
            with the state in params; its derivative with respect to it is 0.
        statistics: `(params, inputs [n, ...]) -> tree` of the means and variances of this batch in
            each `BatchNorm`, which `apply(params, inputs, statistics=...)` standardises with: each
            example by itself. None where no layer is one.
    """

    init: Callable
    apply: Callable
    kernel: Callable | None
    activations: Callable | None = None
    rate_factors: Callable | None = None
    next_state: Callable | None = None
    statistics: Callable | None = None

    @property
    def ntk(self) -> Callable | None:
        """The tangent kernel at infinite width, `(x1, x2=None) -> [n1, n2]`, as `gram` takes it."""
        return self.kernel and _getting(self.kernel, "ntk")

    @property
    def nngp(self) -> Callable | None:
        """The covariance of the outputs at infinite width, `(x1, x2=None) -> [n1, n2]`."""
        return self.kernel and _getting(self.kernel, "nngp")


def state_names(model: Model, params: Any, inputs: Any) -> tuple[str, ...]:
    """Returns the entries of parameters that are state; see `Model.next_state`.

    Shapes will do in place of parameters and inputs.
    """
    if model.next_state is None:
        return ()
    return tuple(jax.eval_shape(model.next_state, params, inputs, jax.random.key(0)))


def with_state_of(model: Model, params: Any, other: Any, inputs: Any) -> Any:
    """Returns parameters with the state of others, such as a start with trained statistics."""
    names = state_names(model, other, inputs)
    return params | {name: other[name] for name in names} if names else params


def accepted(apply: Callable, **given: Any) -> dict[str, Any]:
    """Returns the arguments (`key`, `counted`) that an `apply` takes and that are given."""
    names = inspect.signature(apply).parameters
    return {name: value for name, value in given.items() if name in names and value is not None}
