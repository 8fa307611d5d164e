"""Mean kernels of a finite network over its initialisations, to a given accuracy."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax import arrays, costs
from lsa_jax.checks import integer, number, one_of, require
from lsa_jax.kernels.finite.arguments import Apply, Examples, count_outputs, pair_seen
from lsa_jax.kernels.finite.ntk import empirical_ntk
from lsa_jax.kernels.matrices import memory


class MonteCarlo(NamedTuple):
    """A kernel's mean [n1, n2] over initialisations, in float64.

    With its standard error (the draws' standard deviation over sqrt(draws)), the number of networks
    drawn, and whether the errors are as small as was asked for.
    """

    mean: Float[np.ndarray, "n1 n2"]
    error: Float[np.ndarray, "n1 n2"]
    draws: int
    converged: bool


def monte_carlo_kernel(
    key: Key[Array, ""],
    init: Callable[[Array], Any],
    apply: Apply,
    x1: Examples,
    x2: Examples | None = None,
    *,
    get: Literal["ntk", "nngp"] = "ntk",
    tolerance: float = 0.02,
    min_draws: int = 16,
    max_draws: int = 1000,
) -> MonteCarlo:
    """Averages the NTK, or the products of outputs, over networks until the mean is known well.

    Draw number i is `init(jax.random.fold_in(key, i))`: `lambda key: model.init(key,
    x1.shape[1:])`, or `lambda key: stax_init(key, x1.shape)[1]`. "ntk" is `empirical_ntk`, "nngp"
    f(x) . f(x') / c.

    It stops at the first of min_draws, 2 min_draws, 4 min_draws, ... draws after which no entry's
    standard error is above tolerance times the largest |mean|, or at `max_draws`. There are few
    such looks, so that stopping at a low one hardly makes the errors too small. The mean is that of
    networks of this width; it differs from the infinite-width kernel by O(1 / width).

    Raises:
        InputError: an argument is not accepted, or the draws do not fit the memory.
    """
    require("get", get, one_of("ntk", "nngp"))
    require("tolerance", tolerance, number(0, above=True))
    require("min_draws", min_draws, integer(2))
    require("max_draws", max_draws, integer(min_draws))
    key, (x1, x2) = arrays.random_key("key", key), arrays.input_pair(x1, x2, empty=False)

    def draw(number: Array) -> Array:
        params = init(jax.random.fold_in(key, number))
        if get == "ntk":
            return empirical_ntk(apply, params, x1, x2)
        first, second = pair_seen(apply, params, x1, x1 if x2 is None else x2)
        count_outputs(apply, params, first, "x1")
        with jax.default_matmul_precision("highest"):
            outputs = [jnp.asarray(apply(params, x), float) for x in (first, second)]
            return jnp.matmul(outputs[0], outputs[1].T) / outputs[0].shape[1]

    def draw_some(numbers: Array) -> Array:
        return jax.lax.map(draw, numbers)

    pairs, some = len(x1) * len(x1 if x2 is None else x2), jnp.arange(min_draws)
    memory.check_fits_device(
        f"drawing {min_draws} kernels of {pairs} pairs at a time",
        math.inf,
        # On the host also the draws in float64, their mean, their squares and the error.
        lambda: costs.bytes_one_by_one(draw_some, some) + 8 * (min_draws + 3) * pairs,
        "fewer examples, or fewer min_draws",
    )
    return _averaged(jax.jit(draw_some), tolerance, min_draws, max_draws)


def _averaged(
    draw_some: Callable[[Array], Array], tolerance: float, min_draws: int, max_draws: int
) -> MonteCarlo:
    """Averages draws until their mean is accurate enough."""
    mean = squares = np.zeros(())
    n, look = 0, min_draws
    while True:
        count = min(min_draws, max_draws - n)
        for one in np.asarray(draw_some(jnp.arange(n, n + count)), np.float64):
            n += 1
            change = one - mean  # Welford (1962): no cancellation
            mean = mean + change / n
            squares = squares + change * (one - mean)
        if n in (look, max_draws):
            error = np.sqrt(squares / (n - 1) / n)
            converged = bool(np.all(error <= tolerance * np.abs(mean).max()))
            if converged or n == max_draws:
                return MonteCarlo(mean, error, n, converged)
            look *= 2
