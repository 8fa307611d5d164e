"""Kernels of a network whose layers are infinitely wide."""

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsa_jax import arrays, costs
from lsa_jax.checks import integer, one_of, require, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite import neural_tangents, recursion
from lsa_jax.kernels.infinite.network_shape import is_supported
from lsa_jax.kernels.infinite.steps import Step
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages


class InfiniteKernel(StagedKernel):
    """The kernel of a network whose layers are infinitely wide.

    Its steps are () where neural-tangents alone has it; a transform multiplies the first layer's
    patches.
    """

    def __init__(
        self,
        kernel: Callable[..., Array],
        stages: Callable[..., Stages | None],
        steps: tuple[Step, ...],
        transform: Float[np.ndarray, "k k"] | None = None,
    ) -> None:
        """Takes a kernel, its stages, its network and its transform."""
        super().__init__(kernel, stages)
        self.steps = steps
        self.transform = transform

    def transform_size(self, input_shape: tuple[int, ...]) -> int:
        """Returns how many numbers the first layer sees at once: the side of a transform.

        A window's times the channels, of a convolution; of a dense layer, its inputs.

        Raises:
            InputError: the recursion does not apply to the network on examples of this shape.
        """
        require("input_shape", input_shape, tuple_of(integer(1), empty=False))
        example = jax.ShapeDtypeStruct((1, *input_shape), np.float32)
        if (refusal := _why_not(self.steps, example)) is not None:
            raise InputError(
                f"the first layer's patches cannot be transformed: {refusal}; accepted: networks "
                f"and examples, here of shape {input_shape}, that the recursion evaluates"
            )
        return jax.eval_shape(partial(recursion.patches, self.steps), example).shape[-2]

    def transformed(self, transform: Float[Array | np.ndarray, "k k"]) -> "InfiniteKernel":
        """Returns the kernel of the network whose first layer sees its patches times a matrix.

        With the symmetric root of a matrix M it is the kernel of a recursive feature machine, where
        <p, M p'> stands in place of <p, p'> for the patches p and p' of two images. A patch lists
        the offsets of the window row by row, and the channels at each; of a dense layer it is the
        input, flattened where the network flattens it. The transform is [k, k] with k the
        `transform_size`; further transforms replace this one. The kernel is evaluated by the
        recursion, of float32 inputs.

        Raises:
            InputError: when it is called: the recursion does not apply, or k is another.

        Source: Radhakrishnan et al. (2024), Mechanism for feature learning in neural networks;
        Beaglehole et al. (2023), Mechanism of feature learning in convolutional networks, section
        4, for patches.
        """
        transform = np.asarray(
            arrays.real_array("transform", transform, "k k", finite=True), np.float32
        )

        def check(shape: tuple[int, ...]) -> None:
            size = self.transform_size(shape)
            if transform.shape != (size, size):
                raise InputError(
                    f"transform is {transform.shape}; accepted for examples of {shape}: "
                    f"{(size, size)}"
                )

        return _infinite_kernel(None, self.steps, check, transform)


def infinite_of(network: Any) -> InfiniteKernel:
    """Returns the kernel of a neural-tangents network, for `gram` and the solvers.

        k = kernels.gram(kernels.infinite_of(stax.serial(...)), x_train)
        fit = kernels.regress(k, targets, k_test, ridge=1e-4)

    `kernel(x1, x2=None, get="ntk" | "nngp") -> [n1, n2]`, of (init, apply, kernel_fn), as
    `stax.serial` returns, that ends in outputs [n, c]. Its recursion stays neural-tangents', in the
    inputs' dtype; tiles, devices, files that a killed job goes on with, and the solution are those
    of any kernel here.

    Raises:
        InputError: it is no such triple.
    """
    if not (isinstance(network, tuple) and len(network) == 3 and all(map(callable, network))):
        raise InputError(
            f"network is {network!r}; accepted: (init, apply, kernel_fn), as stax.serial returns"
        )
    return _infinite_kernel(network[2], (), lambda shape: None)


def kernel_of_steps(
    steps: Sequence[Step], check: Callable[[tuple[int, ...]], None] = lambda shape: None
) -> InfiniteKernel:
    """Returns the infinite-width kernel of the network that the steps describe.

    Returns:
        `kernel(x1 [n1, ...], x2=None, get="ntk" | "nngp", method="auto") -> [n1, n2]`, the neural
        tangent kernel (Jacot et al., 2018, theorem 1) or the covariance of the outputs over
        initialisations (Lee et al., 2018). `x2=None` means x1 against itself.

        Method "neural_tangents" is neural-tangents' evaluation, and "recursion" our own of the same
        formulas, several times as fast. In float32 that differs from exact arithmetic by at most
        2e-6 of sqrt(K(x, x) K(x', x')) up to 16 nonlinearities and 1e-5 up to 64, where deviations
        keep their size and small differences do not grow from layer to layer; and by 1e-3 where
        inputs, or patches of them, differ by less than 1e-3 of their size. Nearly opposite ones
        count as opposite. After pools, and after an own nonlinearity, correlations within some
        1e-6 of 1 count as 1. In float64 both numbers are those of float64.
        "auto" is "recursion" where it has every step, else "neural_tangents", which has to be
        installed.

        It raises InputError if an argument is not accepted, or all pairs at once do not fit the
        memory; `kernels.gram` goes by tiles.
    """
    # Made when it is first used: it may not be installed.
    their_kernel = functools.cache(lambda: neural_tangents.serial(steps)[2])
    return _infinite_kernel(lambda *inputs: their_kernel()(*inputs), tuple(steps), check)


def _infinite_kernel(
    kernel_fn: Callable | None,
    steps: tuple[Step, ...],
    check: Callable[[tuple[int, ...]], None],
    transform: Float[np.ndarray, "k k"] | None = None,
) -> InfiniteKernel:
    """Returns the kernel by `kernel_fn`, of neural-tangents, where the recursion does not apply.

    With a transform there is the recursion alone, to which `check` holds the examples' shape.
    """

    def kernel(
        x1: Float[Array | np.ndarray, "n1 ..."],
        x2: Float[Array | np.ndarray, "n2 ..."] | None = None,
        get: Literal["ntk", "nngp"] = "ntk",
        method: Literal["auto", "recursion", "neural_tangents"] = "auto",
    ) -> Float[Array, "n1 n2"]:
        require("get", get, one_of("ntk", "nngp"))
        methods = ("auto", "recursion", *(("neural_tangents",) if transform is None else ()))
        require("method", method, one_of(*methods))
        x1, x2 = arrays.input_pair(x1, x2, whole=False)
        check(x1.shape[1:])
        shape = len(x1), len(x1 if x2 is None else x2)
        if not all(shape):
            return jnp.zeros(shape, x1.dtype)
        refusal = None
        if transform is None and method != "neural_tangents":
            refusal = _why_not(steps, *(x for x in (x1, x2) if x is not None))
        if method != "neural_tangents" and refusal is None:
            by_recursion = partial(recursion.kernel, steps, get=get, transform=transform)
            _check_fits(by_recursion, x1, x2)
            return by_recursion(x1, x2)
        if method == "recursion":
            raise InputError(
                f"method is 'recursion', and {refusal}; accepted here: neural_tangents, auto"
            )
        by_theirs = partial(neural_tangents.evaluate, kernel_fn, get=get, why=refusal)
        _check_fits(by_theirs, x1, x2)
        values = by_theirs(x1, x2)
        if values.shape != shape:
            raise InputError(
                f"the network's kernel of {x1.shape} is {values.shape}; accepted: networks that "
                "end in outputs [n, c], as Flatten or GlobalAvgPool followed by Dense gives"
            )
        return values

    def stages(
        example: jax.ShapeDtypeStruct, get: str = "ntk", method: str = "auto"
    ) -> Stages | None:
        check(example.shape)
        if method not in ("auto", "recursion") or get not in ("ntk", "nngp"):
            return None
        if transform is not None:
            return _stages(steps, example, get)._replace(given=(transform.T.copy(),))
        one = jax.ShapeDtypeStruct((1, *example.shape), example.dtype)
        return None if _why_not(steps, one) else _stages(steps, example, get)

    return InfiniteKernel(kernel, stages, steps, transform)


# The same functions for all transforms, so compiled once.
_stages = functools.lru_cache(maxsize=8)(recursion.stages)


def _check_fits(
    kernel: Callable[[Array, Array | None], Array],
    x1: Array | np.ndarray,
    x2: Array | np.ndarray | None,
) -> None:
    """Raises InputError where all pairs at once do not fit the memory, outside of `jax.jit`."""
    columns = x1 if x2 is None else x2
    # Covariances of all pairs of places of all pairs of examples, several times.
    pairs = len(x1) * len(columns) * math.prod(x1.shape[1:-1]) ** 2
    both = x1.nbytes + (0 if x2 is None else x2.nbytes)
    needed = partial(costs.bytes_one_by_one, kernel, x1, x2)
    memory.check_pairs_fit((x1, x2), 50 * pairs + 1000 * both, needed, "the kernel")


def _why_not(
    steps: tuple[Step, ...], *inputs: Array | np.ndarray | jax.ShapeDtypeStruct
) -> str | None:
    """Returns the reason why the recursion does not apply, or None if it does."""
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
