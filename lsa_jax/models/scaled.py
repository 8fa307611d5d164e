"""A network's change times a number alpha, which goes from rich to lazy training.

The trained function is alpha (f(theta) - f(theta_0)), with the loss over alpha^2. Large alpha is
lazy: parameters move by 1 / alpha, and the network learns its linearisation at the start.

The parameter here is w = alpha (theta - theta_0), "moved", so that

    F(w) = alpha (f(theta_0 + w / alpha) - f(theta_0)),    F(0) = 0.

Its derivative at any w is that of f at theta, so gradient descent on the plain loss of F is, step
by step, gradient descent on theta with the loss over alpha^2, at the same learning rate. The
tangent kernel is f's, without a factor, and so is the initial speed of the outputs, at any alpha.
Below 1 the loss of L layers curves as alpha^-(2 - 2 / L), so rates have to fall with alpha. Adam's
steps are steps of w: theta moves by rate / alpha. A penalty on the parameters penalises w, the
distance from the start.

Source: Chizat, Oyallon and Bach, 2019 (arXiv 1812.07956), section 2; Geiger et al., 2020
(arXiv 1906.08034), for the loss over alpha^2.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Shaped

from lsa_jax.checks import number, require
from lsa_jax.models.model import Model, accepted

PyTree = Any

# The entry of the parameters that is not trained; see `frozen` of `training.train`.
FROZEN = ("initial",)


@functools.lru_cache(maxsize=64)  # the same functions for the same network, so compiled once
def scaled(model: Model, output_scale: float) -> Model:
    """Returns alpha (f - f_0) of a network f, as a model of the parameters w.

    Args:
        model: f.
        output_scale: alpha; `math.inf` for the limit, <df/dtheta at theta_0, w>.

    Returns:
        A model whose parameters are "initial", theta_0, without a gradient (pass `FROZEN` to
        `training.train`, so that the optimiser has no state for it), and "moved", w, which starts
        at 0. Its kernel and the factors of its learning rates are f's.

    Raises:
        InputError: alpha is not above 0.
    """
    if output_scale != math.inf:
        require("output_scale", output_scale, number(0, above=True))

    def init(key: Key[Array, ""], input_shape: Any) -> dict[str, PyTree]:
        initial = model.init(key, input_shape)
        return {"initial": initial, "moved": jax.tree.map(jnp.zeros_like, initial)}

    def apply(
        params: dict[str, PyTree],
        inputs: Shaped[Array | np.ndarray, "n ..."],  # of tokens whole numbers
        counted: Float[Array, " n"] | None = None,
    ) -> Float[Array, "n c"]:
        given = accepted(model.apply, counted=counted)

        def network(theta: PyTree) -> Float[Array, "n c"]:
            return model.apply(theta, inputs, **given)

        initial = jax.lax.stop_gradient(params["initial"])
        if output_scale == math.inf:
            return jax.jvp(network, (initial,), (params["moved"],))[1]
        now = network_params({**params, "initial": initial}, output_scale)
        return output_scale * (network(now) - network(initial))

    def rate_factors(input_shape: tuple[int, ...], optimizer: str) -> dict[str, PyTree]:
        assert model.rate_factors is not None
        moved = model.rate_factors(input_shape, optimizer)
        return {"initial": jax.tree.map(lambda _: 0.0, moved), "moved": moved}

    factors = None if model.rate_factors is None else rate_factors
    return Model(init, apply, model.kernel, None, factors)


def network_params(params: dict[str, PyTree], output_scale: float) -> PyTree:
    """Returns the parameters theta of f: theta_0 + w / alpha, at `math.inf` theta_0."""
    return jax.tree.map(
        lambda start, w: start + w / output_scale, params["initial"], params["moved"]
    )
