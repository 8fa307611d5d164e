"""Kernels of a network whose layers are infinitely wide."""

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite import recursion
from lsa_jax.kernels.infinite.network_shape import is_supported
from lsa_jax.kernels.infinite.steps import Step, serial
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages

_METHODS = ("auto", "recursion", "neural_tangents")


def infinite_kernel(kernel_fn: Callable) -> StagedKernel:
    """Turns the kernel function of a neural-tangents network into one of inputs alone.

    Args:
        kernel_fn: third member of a neural-tangents stax network that ends in outputs [n, c].

    Returns:
        A kernel as `Model.kernel` is, evaluated by neural-tangents.
    """
    return _infinite_kernel(kernel_fn, ())


def infinite_of(network: Any) -> StagedKernel:
    """Takes a network of neural-tangents as it is: its kernel, for `gram` and what solves it.

        k = kernels.gram(kernels.infinite_of(stax.serial(...)), x_train)
        fit = kernels.regress(k, targets, k_test, ridge=1e-4)

    Its recursion stays neural-tangents', in the inputs' dtype; tiles, devices, files that a killed
    job goes on with, and the solution are those of any kernel here.

    Args:
        network: (init, apply, kernel_fn), as `stax.serial` returns, that ends in outputs [n, c].

    Returns:
        `kernel(x1, x2=None, get="ntk" | "nngp") -> [n1, n2]`.

    Raises:
        InputError: it is no such triple.
    """
    if not (isinstance(network, tuple) and len(network) == 3 and all(map(callable, network))):
        raise InputError(
            f"network is {network!r}; accepted: (init, apply, kernel_fn), as stax.serial returns"
        )
    return infinite_kernel(network[2])


def kernel_of_steps(steps: Sequence[Step]) -> StagedKernel:
    """Returns the infinite-width kernel of the network that the steps describe.

    Returns:
        `kernel(x1 [n1, ...], x2=None, get="ntk" | "nngp", method="auto") -> [n1, n2]`, the neural
        tangent kernel (Jacot et al., 2018, theorem 1) or the covariance of the outputs over
        initialisations (Lee et al., 2018). `x2=None` means x1 against itself.

        Method "neural_tangents" is neural-tangents' evaluation, and "recursion" our own of the same
        formulas, several times as fast. Relative to sqrt(K(x, x) K(x', x')) that differs from exact
        arithmetic by a few float32 roundings; examples that are parallel but for a relative
        difference of about 1e-3 count as parallel. In float64 both numbers are those of float64.
        "auto" is "recursion" where it has every step and inputs are float32 or float64, else
        "neural_tangents", which has to be installed.

        It raises InputError if an argument is not accepted.
    """
    their_network = cache(lambda: serial(steps))  # not before it is asked for

    def kernel_fn(x1: Array, x2: Array | None, get: str) -> Array:
        return their_network()[2](x1, x2, get)

    return _infinite_kernel(kernel_fn, tuple(steps))


def _infinite_kernel(kernel_fn: Callable, steps: tuple[Step, ...]) -> StagedKernel:
    def kernel(
        x1: Float[Array | np.ndarray, "n1 ..."],
        x2: Float[Array | np.ndarray, "n2 ..."] | None = None,
        get: Literal["ntk", "nngp"] = "ntk",
        method: Literal["auto", "recursion", "neural_tangents"] = "auto",
    ) -> Float[Array, "n1 n2"]:
        if get not in ("ntk", "nngp"):
            raise InputError(f"get is {get!r}; accepted: ntk, nngp")
        if method not in _METHODS:
            raise InputError(f"method is {method!r}; accepted: {', '.join(_METHODS)}")
        if x2 is not None and x2.shape[1:] != x1.shape[1:]:
            raise InputError(
                f"x1 is {x1.shape} and x2 is {x2.shape}; accepted: equal shapes but for the first "
                "axis"
            )
        if method != "neural_tangents":
            refusal = _why_not(steps, *(x for x in (x1, x2) if x is not None))
            if refusal is None:
                return recursion.kernel(steps, x1, x2, get)
            if method == "recursion":
                raise InputError(
                    f"method is 'recursion', and {refusal}; accepted here: neural_tangents, auto"
                )
        values = _by_neural_tangents(kernel_fn, x1, x2, get)
        if values.shape != (len(x1), len(x1 if x2 is None else x2)):
            raise InputError(
                f"the network's kernel of {x1.shape} is {values.shape}; accepted: networks that "
                "end in outputs [n, c], as Flatten or GlobalAvgPool followed by Dense gives"
            )
        return values

    def stages(
        example: jax.ShapeDtypeStruct, get: str = "ntk", method: str = "auto"
    ) -> Stages | None:
        one = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
        elsewhere = method not in ("auto", "recursion") or get not in ("ntk", "nngp")
        return None if elsewhere or _why_not(steps, one) else recursion.stages(steps, example, get)

    return StagedKernel(kernel, stages)


@jax.default_matmul_precision("highest")
def _by_neural_tangents(
    kernel_fn: Callable, x1: Array | np.ndarray, x2: Array | np.ndarray | None, get: str
) -> Array:
    with warnings.catch_warnings():
        # models.Residual sees to the independence that this warning asks for.
        warnings.filterwarnings("ignore", "`FanIn` layers assume independent", UserWarning)
        try:
            return kernel_fn(x1, x2, get)
        except InputError:  # it is not installed
            raise
        except (NotImplementedError, ValueError) as error:
            why = str(error).splitlines()[0]
            raise InputError(f"neural-tangents has no kernel of these layers: {why}") from error


def _why_not(
    steps: tuple[Step, ...], *inputs: Array | np.ndarray | jax.ShapeDtypeStruct
) -> str | None:
    """Returns the reason why the recursion does not apply, or None if it does."""
    if not all(x.shape[0] for x in inputs):
        return "there are no examples"
    if not is_supported(steps, inputs[0].shape[1:]):
        return (
            "the network has a layer that neural-tangents alone evaluates, does not begin with "
            "weights, has weights of size 0, ends in more than [n, c], or has a nonlinearity, a "
            "normalisation or a sum of features that are not Gaussian"
        )
    dtypes = {jnp.result_type(x) for x in inputs}
    if dtypes not in ({jnp.dtype("float32")}, {jnp.dtype("float64")}):
        return f"inputs are {', '.join(sorted(map(str, dtypes)))}, not float32 or float64"
    return None
