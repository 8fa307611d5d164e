"""The paper's networks: truncated ReLUs, ResNet-18 of any width, and a layer of squares."""

from dataclasses import dataclass
from math import sqrt

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Key

from lsa_jax.models import (
    BatchNorm,
    Conv,
    Dense,
    Elementwise,
    Flatten,
    GlobalAvgPool,
    Layer,
    Relu,
    Residual,
)
from lsa_jax.models.model import Model
from lsa_jax.models.network import network

Params = dict[str, Float[Array, "..."]]
NUM_STAGES, BLOCKS_PER_STAGE = 4, 2
# Random streams of an initialisation's key: weights, biases, readout.
_W, _B, _A = range(3)


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
    first m neurons. Neuron m + i starts with the weight and bias of neuron i and with -a_i, so the
    network starts at zero. Outputs are means over noise of deviation `noise_std` in the neurons.

    Source: Shi, Wei and Liang (2022), section 3.1.
    """

    def init(key: Key[Array, ""], input_shape: tuple[int]) -> Params:
        normal = jax.random.normal
        w = weight_std * normal(jax.random.fold_in(key, _W), (input_shape[0], m))
        b = bias_std * normal(jax.random.fold_in(key, _B), (m,))
        a = output_std * normal(jax.random.fold_in(key, _A), (m,))
        return {
            "w": jnp.concatenate([w, w], axis=1),
            "b": jnp.concatenate([b, b]),
            "a": jnp.concatenate([a, -a]),
        }

    def apply(params: Params, inputs: Float[Array, "n d"]) -> Float[Array, "n 1"]:
        z = inputs @ params["w"] + params["b"][None]
        return truncated_relu(z, noise_std) @ params["a"][:, None]

    return Model(init, apply, None)


@dataclass(frozen=True)
class Square(Elementwise):
    """x^2."""

    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns the square of every number."""
        return jnp.square(x)

    def duals(
        self,
        covariance: Float[Array, "..."],
        variance1: Float[Array, "..."],
        variance2: Float[Array, "..."],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns E[z^2 z'^2] = v v' + 2 c^2 and E[2z 2z'] = 4 c."""
        return variance1 * variance2 + 2 * covariance**2, 4 * covariance


def resnet18(filters: int = 64, num_classes: int = 10, *, scale: float = 1.0) -> Model:
    """ResNet(m): the ResNet-18 for images of 32 x 32 with m filters in its first stage.

    Stem: convolution 3 x 3 to m channels, norm, ReLU. Then four stages of two blocks with m, 2m, 4m
    and 8m channels; the first block of the later stages has stride 2. A block is
    conv-norm-ReLU-conv-norm (3 x 3) plus its input, which a 1 x 1 convolution and a norm bring to
    the block's shape where that changes, then ReLU. Last come the average over all positions and a
    dense readout. m = 64 is the standard network.

    Batch normalisation uses the statistics of the batch at hand, in evaluation too (`BatchNorm`).

    Args:
        filters: m.
        num_classes: outputs.
        scale: of the convolutions' initial weights. Outputs are the same for any, but small weights
            turn further with a step.

    Source: He et al. (2016); Shi, Wei and Liang (2022), appendices E.4.1 and E.5.2: ResNet(m).
    """

    def conv(features: int, window: int = 3, stride: int = 1) -> Conv:
        return Conv(features, (window, window), (stride, stride), "SAME", scale * sqrt(2))

    layers: list[Layer] = [conv(filters), BatchNorm(), Relu()]
    for stage in range(NUM_STAGES):
        channels = filters * 2**stage
        for block in range(BLOCKS_PER_STAGE):
            stride = 2 if stage > 0 and block == 0 else 1
            branch = [conv(channels, 3, stride), BatchNorm(), Relu(), conv(channels), BatchNorm()]
            shortcut = (conv(channels, 1, stride), BatchNorm()) if stride > 1 else ()
            layers += [Residual(tuple(branch), shortcut), Relu()]
    layers += [GlobalAvgPool(), Dense(num_classes, b_std=0.0)]
    return network(layers, parameterization="standard")


def last_filters(
    params: dict, stage: int
) -> Float[Array | np.ndarray | jax.ShapeDtypeStruct, "h w c f"]:
    """Returns the last convolution of a stage of `resnet18`, counted from 0, or its gradient."""
    block = params[f"Residual_{BLOCKS_PER_STAGE * (stage + 1) - 1}"]
    return block["branch"]["Conv_1"]["weight"]


def quadratic_network(units: int, num_classes: int = 10) -> Model:
    """FC(m): one hidden layer of m squares, biases in both layers.

    Source: Shi, Wei and Liang (2022), appendix E.5.2: FC(m).
    """
    layers = [Flatten(), Dense(units, b_std=0.0), Square(), Dense(num_classes, b_std=0.0)]
    return network(layers, parameterization="standard")
