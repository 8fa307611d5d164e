"""A network described once: how to draw it, how to run it, and its infinite-width kernel."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


@functools.lru_cache(maxsize=64)  # the same function for the same kernel, so compiled once
def _getting(kernel: Callable, get: str) -> Callable:
    return functools.partial(kernel, get=get)


class Model(NamedTuple):
    """Pure functions of one network.

    Attributes:
        init: `(key, input_shape) -> params`, where `input_shape` leaves out the batch axis.
        apply: `(params, inputs [n, ...]) -> outputs [n, c]`. Networks of layers take two arguments
            more: with `key` they draw masks (`Dropout`), as in training; `counted` [n] is 1 for the
            examples that statistics of the batch are of (`BatchNorm`), 0 for those that only fill
            up the batch. Training passes them to any `apply` that takes them by these names; one
            whose examples act on one another should take `counted`.
        kernel: `(x1 [n1, ...], x2=None, get="ntk" | "nngp") -> [n1, n2]` of the same network at
            infinite width; `x2=None` means x1 against itself. Networks of layers also take
            `method`: see `kernels.infinite_kernel`. None where there is no such limit.
        activations: `(params, inputs [n, ...], counted=None) -> (outputs [n, c], {layer: [n,
            ...]})`, with every ReLU's output by the layer's path in the network. None where it is
            not known.
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


def accepted(apply: Callable, **given: Any) -> dict[str, Any]:
    """Returns the arguments that a network's `apply` takes by name, those that are None left out.

    Args:
        apply: of a `Model`.
        given: `key` and `counted`.
    """
    names = inspect.signature(apply).parameters
    return {name: value for name, value in given.items() if name in names and value is not None}
