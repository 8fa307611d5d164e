"""Networks: initialisation, outputs and infinite-width kernel from one description.

Ready-made are `cnn`, `wide_resnet` and `mlp`, the image classifiers, listed in `MODELS`. Any other
is a sequence of layers:

    model = network([Conv(32), Relu(), GlobalAvgPool(), Dense(10)])
    params = model.init(key, (28, 28, 1))  # or one example, images[0]
    outputs = model.apply(params, images)  # [n, 10]
    gram = model.kernel(images, get="ntk")  # [n, n]
"""

from lsa_jax.models.adapters import from_equinox, from_flax_linen, from_haiku, from_nnx
from lsa_jax.models.classifiers import MODELS, cnn, mlp, wide_resnet
from lsa_jax.models.layers.affine import Conv, Dense
from lsa_jax.models.layers.base import Layer, LayerModule
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
from lsa_jax.models.model import Model
from lsa_jax.models.network import network
from lsa_jax.models.sampled import sampled_kernel
from lsa_jax.models.scaled import scaled

__all__ = [
    "MODELS",
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
    "Model",
    "Relu",
    "Residual",
    "Serial",
    "Sigmoid",
    "Silu",
    "Sin",
    "Softplus",
    "SumPool",
    "Tanh",
    "cnn",
    "from_equinox",
    "from_flax_linen",
    "from_haiku",
    "from_nnx",
    "mlp",
    "network",
    "sampled_kernel",
    "scaled",
    "wide_resnet",
]
