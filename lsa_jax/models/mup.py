"""The maximal update parameterisation (muP): features move equally at any width.

It is defined by a *base*, the same layers at another width, where it is the standard
parameterisation bit for bit. With r_in and r_out the ratios of a parameter's numbers of inputs and
outputs to those in the base (a parameter of one axis has one input):

| parameter | r_in, r_out | initial std. dev. | rate, SGD | rate, Adam |
|---|---|---|---|---|
| first weights, biases, scales | 1, n | 1 | n | 1 |
| hidden weights | n, n | 1 | 1 | 1 / n |
| last weights | n, 1 | 1 / sqrt(n) | 1 / n | 1 / n |

all of them factors on the standard parameterisation. They depend on the sizes that grow, not on the
place of a layer, so every network that is a sequence of layers has its factors.

Source: Yang et al., Tensor Programs V, 2022 (arXiv 2203.03466), table 3; in one formula for all
kinds, Yang, Simon and Bernstein, 2023 (arXiv 2310.17813), condition 1.
"""

import math
from typing import Any

import jax
import numpy as np

from lsa_jax.checks import one_of, require
from lsa_jax.errors import InputError

PyTree = Any

# The column of rates: "sgd" where an optimiser's step grows with the gradient, "adam" elsewhere.
RULES = {"sgd": "sgd", "momentum": "sgd", "adam": "adam", "adamw": "adam"}


def _ratios(leaf: Any, base: Any) -> tuple[float, float]:
    """Returns a parameter's ratios of inputs and of outputs to the base."""
    if len(leaf.shape) != len(base.shape):
        raise InputError(f"base has a parameter {base.shape} where the network has {leaf.shape}")
    fan_in, base_in = (math.prod(shape[:-1]) for shape in (leaf.shape, base.shape))
    return fan_in / base_in, leaf.shape[-1] / base.shape[-1]


def _by_leaf(of: Any, params: PyTree, base: PyTree) -> PyTree:
    if jax.tree.structure(params) != jax.tree.structure(base):
        raise InputError("base has other layers than the network; accepted: the same at any width")
    return jax.tree.map(lambda leaf, other: of(*_ratios(leaf, other)), params, base)


def rate_factors(params: PyTree, base: PyTree, optimizer: str) -> PyTree:
    """Returns the factors on the learning rate of each parameter under an optimiser.

    `params` and `base` are arrays, or their shapes.

    Raises:
        InputError: there is no such optimiser, or the base is no other width of the same network.
    """
    require("optimizer", optimizer, one_of(*RULES))
    if RULES[optimizer] == "sgd":
        return _by_leaf(lambda r_in, r_out: r_out / r_in, params, base)
    return _by_leaf(lambda r_in, r_out: 1 / r_in, params, base)


def scale_initial(params: PyTree, base: PyTree) -> PyTree:
    """Returns initial parameters of the standard parameterisation at the scale of muP.

    Raises:
        InputError: the base is no other width of the same network.
    """
    factors = _by_leaf(lambda r_in, r_out: 1 / math.sqrt(r_in) if r_out == 1 else 1.0, params, base)
    return jax.tree.map(lambda leaf, factor: np.float32(factor) * leaf, params, factors)
