"""The two-layer network of truncated ReLUs, with paired initial neurons that cancel out."""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Key

from lsa_jax.checks import integer, require
from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning.streams import TruncatedRelu
from lsa_jax.models.model import Model

Params = dict[str, Float[Array, "..."]]


def _smoothed_relu(z: Float[Array, "..."], noise_std: float) -> Float[Array, "..."]:
    scaled = z / noise_std
    return z * norm.cdf(scaled) + noise_std * norm.pdf(scaled)


def truncated_relu(z: Float[Array, "..."], noise_std: float = 0.0) -> Float[Array, "..."]:
    """Returns the mean over xi ~ N(0, noise_std^2) of s(z + xi), s(z) = min(1, max(z, 0)).

    With r the ReLU, s(z) = r(z) - r(z - 1), and the mean of r(z + xi) has a closed form.

    Source: Shi, Wei and Liang (2022), section 3.1, and its footnote on smoothing.
    """
    if noise_std == 0:
        return jnp.clip(z, 0.0, 1.0)
    return _smoothed_relu(z, noise_std) - _smoothed_relu(z - 1, noise_std)


def truncated_relu_network(
    m: int,
    *,
    weight_std: float | Float[Array, ""],
    bias_std: float | Float[Array, ""],
    output_std: float | Float[Array, ""],
    noise_std: float = 0.0,
) -> Model:
    """Returns g(x) = sum_i a_i s(<w_i, x> + b_i) with 2 m neurons, of inputs [n, d].

    Parameters are "w" [d, 2 m], "b" [2 m] and "a" [2 m], independent centred Gaussians for the
    first m neurons, of the standard deviations given. Neuron m + i starts with the weight and bias
    of neuron i and with -a_i, so the network starts at zero without bias. Outputs are means over
    noise in the neurons of standard deviation `noise_std`.

    Raises:
        InputError: an argument is not accepted.

    Source: Shi, Wei and Liang (2022), section 3.1.
    """
    require("m", m, integer(1))

    def init(key: Key[Array, ""], input_shape: tuple[int, ...]) -> Params:
        if len(input_shape) != 1:
            raise InputError(f"input_shape is {input_shape!r}; accepted: (d,)")
        normal = jax.random.normal
        w = weight_std * normal(jax.random.fold_in(key, TruncatedRelu.W), (input_shape[0], m))
        b = bias_std * normal(jax.random.fold_in(key, TruncatedRelu.B), (m,))
        a = output_std * normal(jax.random.fold_in(key, TruncatedRelu.A), (m,))
        return {
            "w": jnp.concatenate([w, w], axis=1),
            "b": jnp.concatenate([b, b]),
            "a": jnp.concatenate([a, -a]),
        }

    def apply(params: Params, inputs: Float[Array, "n d"]) -> Float[Array, "n 1"]:
        z = inputs @ params["w"] + params["b"][None]
        return truncated_relu(z, noise_std) @ params["a"][:, None]

    return Model(init, apply, None)
