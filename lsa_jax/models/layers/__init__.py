"""The layers of networks, at finite and at infinite width.

A layer is a frozen dataclass with two short methods:

* `finite(x, module)` computes its outputs at finite width, as part of a flax module that holds its
  parameters;
* `infinite(parameterization)` returns the steps of its kernel at infinite width, of
  `kernels.infinite.steps`, or None where there is no such limit. Steps are evaluated by our own
  recursion or by neural-tangents (`method` of a kernel). A layer that only neural-tangents has is
  the step `NeuralTangents`, and networks with it are evaluated there.

A new layer is one such class; nothing else changes. A new nonlinearity derives from `Elementwise`,
and needs the function alone. Images are [n, height, width, channels].
"""

from lsa_jax.models.layers.affine import Conv, Dense
from lsa_jax.models.layers.base import DTYPES, PARAMETERIZATIONS, Layer, LayerModule, shape_of
from lsa_jax.models.layers.composition import Concat, Identity, Residual, Serial
from lsa_jax.models.layers.elementwise import (
    ABRelu,
    Abs,
    Dropout,
    Elementwise,
    ElementwiseNumerical,
    Elu,
    Erf,
    Gelu,
    LeakyRelu,
    Nonlinearity,
    Relu,
    Sigmoid,
    Silu,
    Sin,
    Softplus,
    Tanh,
)
from lsa_jax.models.layers.normalization import BatchNorm, LayerNorm
from lsa_jax.models.layers.pooling import (
    AvgPool,
    Flatten,
    GlobalAvgPool,
    GlobalSumPool,
    MaxPool,
    SumPool,
)

__all__ = [
    "DTYPES",
    "PARAMETERIZATIONS",
    "ABRelu",
    "Abs",
    "AvgPool",
    "BatchNorm",
    "Concat",
    "Conv",
    "Dense",
    "Dropout",
    "Elementwise",
    "ElementwiseNumerical",
    "Elu",
    "Erf",
    "Flatten",
    "Gelu",
    "GlobalAvgPool",
    "GlobalSumPool",
    "Identity",
    "Layer",
    "LayerModule",
    "LayerNorm",
    "LeakyRelu",
    "MaxPool",
    "Nonlinearity",
    "Relu",
    "Residual",
    "Serial",
    "Sigmoid",
    "Silu",
    "Sin",
    "Softplus",
    "SumPool",
    "Tanh",
    "shape_of",
]
