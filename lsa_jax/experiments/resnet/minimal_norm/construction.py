"""Networks of small Frobenius norm for a product of six inputs, made by hand.

F(W; x) = a^T s(W x) with s the ReLU and a_j = +-1/sqrt(m), the first half +, is fitted on 6 inputs
and 64 examples; zero columns and duplicated neurons make it one of any d and any larger m.
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Key

from lsa_jax.experiments.resnet.minimal_norm.settings import DEGREE


def output_signs(width: int) -> Float[Array, " m"]:
    """Returns a: 1/sqrt(m), from the second half on -1/sqrt(m)."""
    return jnp.repeat(jnp.array([1.0, -1.0]), width // 2) / math.sqrt(width)


def network(
    params: dict[str, Array | np.ndarray], inputs: Float[Array | np.ndarray, "n d"]
) -> Float[Array, "n 1"]:
    """Returns F(W; x); params["w"] is the transpose of W, [d, m]."""
    w = params["w"]
    return (jax.nn.relu(inputs @ w) @ output_signs(w.shape[1]))[:, None]


def product_of_six(inputs: Float[Array | np.ndarray, "n d"]) -> Float[Array, "n 1"]:
    """Returns y = d^3 x_1 ... x_6, a sign, for entries of x of size 1 / sqrt(d)."""
    return jnp.prod(jnp.sign(inputs[:, :DEGREE]), axis=1)[:, None]


def all_inputs() -> Float[np.ndarray, "64 6"]:
    """Returns every x in {-1/sqrt(6), 1/sqrt(6)}^6 once."""
    signs = list(itertools.product((-1.0, 1.0), repeat=DEGREE))
    return np.array(signs, np.float32) / math.sqrt(DEGREE)


def fit_small(
    key: Key[Array, ""], penalty: Float[Array, ""], *, width: int, steps: int, rate: float
) -> Float[Array, "6 m"]:
    """Fits the network of 6 inputs: least mean squared error + penalty |W|_F^2 / 6.

    Adam on all 64 inputs, its rate falling to 0 as a cosine, from W ~ N(0, 1).

    Source: Allen-Zhu and Li (2019), section 8.2, footnote 16: fitted numerically; how, is ours.
    """
    x = jnp.asarray(all_inputs())
    y = product_of_six(x)
    rule = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def loss(params: dict[str, Array]) -> Array:
        error = jnp.mean((network(params, x) - y) ** 2)
        return error + penalty * jnp.sum(params["w"] ** 2) / DEGREE

    def step(state: Any, _: None) -> tuple[Any, None]:
        params, opt_state = state
        updates, opt_state = rule.update(jax.grad(loss)(params), opt_state)
        return (optax.apply_updates(params, updates), opt_state), None

    params = {"w": jax.random.normal(key, (DEGREE, width))}
    return lax.scan(step, (params, rule.init(params)), None, length=steps)[0][0]["w"]


def enlarge(small: Float[np.ndarray, "6 m"], d: int, width: int) -> Float[np.ndarray, "d M"]:
    """Returns the network of d inputs and M neurons that computes what a small one does.

    Entries of x are of size 1/sqrt(d) instead of 1/sqrt(6), so weights grow by sqrt(d / 6); other
    inputs get weight 0. Of a neuron's c copies each has its weights times sqrt(M / m) / c. Copies
    are dealt out evenly within each half; where all have as many, |W|_F grows by sqrt(d / 6) alone.

    Source: Allen-Zhu and Li (2019), section 8.2, footnote 16.
    """
    old = small.shape[1]
    large = np.zeros((d, width), small.dtype)
    for half in range(2):
        first, place = half * (old // 2), half * (width // 2)
        origin = first + np.arange(width // 2) % (old // 2)
        copies = np.bincount(origin, minlength=old)[origin]
        scaled = small[:, origin] * (math.sqrt(width / old) / copies)
        large[:DEGREE, place : place + width // 2] = scaled * math.sqrt(d / DEGREE)
    return large


def exact_error(w: Float[np.ndarray, "d m"]) -> float:
    """Returns the mean of (F - y)^2 over all inputs of a network that `enlarge` returned.

    Weights of all but 6 inputs are 0, so that the 64 signs of these are all inputs that differ.
    """
    inputs = all_inputs() * math.sqrt(DEGREE / w.shape[0])
    outputs = network({"w": w[:DEGREE]}, inputs)
    return float(np.mean((np.asarray(outputs, float) - product_of_six(inputs)) ** 2))
