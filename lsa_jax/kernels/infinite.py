"""Kernels of a network whose layers are infinitely wide."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Array, Float

from lsa_jax.errors import InputError


def infinite_kernel(kernel_fn: Callable) -> Callable[..., Float[Array, "n1 n2"]]:
    """Turns the kernel function of a neural-tangents network into one of inputs alone.

    Args:
        kernel_fn: third member of a neural-tangents stax network that ends in outputs [n, c].

    Returns:
        `kernel(x1 [n1, ...], x2=None, get="ntk" | "nngp") -> [n1, n2]`, the neural tangent kernel
        (Jacot et al., 2018, theorem 1) or the covariance of the outputs over initialisations (Lee
        et al., 2018). `x2=None` means x1 against itself. It raises InputError if `get` or the
        shapes are not accepted.
    """

    def kernel(
        x1: Float[Array, "n1 ..."],
        x2: Float[Array, "n2 ..."] | None = None,
        get: Literal["ntk", "nngp"] = "ntk",
    ) -> Float[Array, "n1 n2"]:
        if get not in ("ntk", "nngp"):
            raise InputError(f"get is {get!r}; accepted: ntk, nngp")
        if x2 is not None and x2.shape[1:] != x1.shape[1:]:
            raise InputError(
                f"x1 is {x1.shape} and x2 is {x2.shape}; accepted: equal shapes but for the first "
                "axis"
            )
        values = kernel_fn(x1, x2, get)
        if values.shape != (len(x1), len(x1 if x2 is None else x2)):
            raise InputError(
                f"the network's kernel of {x1.shape} is {values.shape}; accepted: networks that "
                "end in outputs [n, c], as Flatten or GlobalAvgPool followed by Dense gives"
            )
        return values

    return kernel
