"""Fully connected networks."""

from math import sqrt
from typing import Literal

from lsa_jax.checks import integer, one_of, require, tuple_of
from lsa_jax.models.layers import Dense, Erf, Flatten, Layer, Relu
from lsa_jax.models.model import Model
from lsa_jax.models.network import network

_ACTIVATIONS = {"relu": Relu(), "erf": Erf()}


def mlp(
    width_factor: int = 1,
    num_classes: int = 10,
    *,
    widths: tuple[int, ...] = (512,),
    activation: Literal["relu", "erf"] = "relu",
    parameterization: Literal["ntk", "standard", "mup"] = "ntk",
    dtype: Literal["float32", "bfloat16"] = "float32",
    w_std: float = sqrt(2),
    b_std: float | None = None,
) -> Model:
    """Dense hidden layers, each followed by the activation, then a dense readout.

    Args:
        width_factor: multiplies all widths.
        num_classes: outputs.
        widths: units of each hidden layer at width factor 1; none for a linear model.
        activation: "relu" or "erf".
        parameterization: see `network`; the base of "mup" is the width factor 1.
        dtype: see `network`.
        w_std: scale of the hidden layers' weights; sqrt(2) keeps the variance through ReLUs. The
            readout's is 1.
        b_std: scale of all biases; None for no biases.

    Returns:
        The network, of inputs [n, ...] (flattened first).

    Raises:
        InputError: an argument is not accepted.
    """
    require("width_factor", width_factor, integer(1))
    require("num_classes", num_classes, integer(1))
    require("widths", widths, tuple_of(integer(1)))
    require("activation", activation, one_of(*_ACTIVATIONS))

    def layers(factor: int) -> list[Layer]:
        hidden: list[Layer] = [Flatten()]
        for features in widths:
            hidden += [Dense(features * factor, w_std, b_std), _ACTIVATIONS[activation]]
        return [*hidden, Dense(num_classes, b_std=b_std)]

    return network(
        layers(width_factor), parameterization=parameterization, dtype=dtype, base=layers(1)
    )
