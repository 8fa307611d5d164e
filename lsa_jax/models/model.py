"""A network described once: how to draw it, how to run it, and its infinite-width kernel."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from lsa_jax.errors import InputError


@functools.lru_cache(maxsize=64)  # the same function for the same kernel, so compiled once
def _getting(kernel: Callable, get: str) -> Callable:
    return functools.partial(kernel, get=get)


class NoKernel:
    """Stands in for the kernel of a network without an infinite-width limit; it is false.

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
        init: `(key, input_shape) -> params`, where `input_shape` leaves out the batch axis.
        apply: `(params, inputs [n, ...]) -> outputs [n, c]`. Networks of layers take a third
            argument, `key`: with it they draw masks (`Dropout`), as in training.
        kernel: `(x1 [n1, ...], x2=None, get="ntk" | "nngp") -> [n1, n2]` of the same network at
            infinite width; `x2=None` means x1 against itself. Networks of layers also take
            `method`: see `kernels.infinite_kernel`. Where there is no such limit, a `NoKernel`
            or None, which are false.
        activations: `(params, inputs [n, ...]) -> (outputs [n, c], {layer: [n, ...]})`, with what
            every ReLU gives, by the layer's path in the network. None where it is not known.
        rate_factors: `(input_shape, optimizer) -> numbers in the parameters' structure`, what the
            learning rate of each parameter is multiplied by under an optimiser of this name
            (`training.make_optimizer` takes them). None where it is the same for all.
    """

    init: Callable
    apply: Callable
    kernel: Callable | None
    activations: Callable | None = None
    rate_factors: Callable | None = None

    @property
    def ntk(self) -> Callable | None:
        """The tangent kernel at infinite width, `(x1, x2=None) -> [n1, n2]`, as `gram` takes it."""
        return self.kernel and _getting(self.kernel, "ntk")

    @property
    def nngp(self) -> Callable | None:
        """The covariance of the outputs at infinite width, `(x1, x2=None) -> [n1, n2]`."""
        return self.kernel and _getting(self.kernel, "nngp")
