"""The networks of the suite `training` in PyTorch, computed from the same parameters.

Parameters are nested dictionaries as flax names them, of filters in PyTorch's layout. Where images
are padded, they and the filters are mirrored: our windows of stride 2 begin at the first pixel and
end behind the last, PyTorch's begin before the first.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

Parameters = dict[str, Any]

_BATCH_NORM_EPSILON = 1e-5
_LAYER_NORM_EPSILON = 1e-12


class Network(NamedTuple):
    """A network.

    Attributes:
        forward: `(parameters, inputs) -> outputs`; images come with channels first.
        mirrored: whether images and filters are.
        channels_last: whether they lie so in memory.
    """

    forward: Callable[[Parameters, Any], Any]
    mirrored: bool = True
    channels_last: bool = False

    def translated(self, params: Parameters) -> Parameters:
        """Returns our parameters as tensors to be trained."""
        import torch

        def tensor(array: Any) -> Any:
            array = np.array(array)
            if array.ndim != 4:
                return torch.from_numpy(array).requires_grad_()
            return self._placed(self._mirror(array, (0, 1)).transpose(3, 2, 0, 1)).requires_grad_()

        return jax.tree.map(tensor, params)

    def as_ours(self, params: Parameters) -> Parameters:
        """Undoes `translated`."""

        def array(tensor: Any) -> np.ndarray:
            found = tensor.detach().numpy()
            return self._mirror(found.transpose(2, 3, 1, 0), (0, 1)) if found.ndim == 4 else found

        return jax.tree.map(array, params)

    def images(self, x: Float[np.ndarray, "n h w c"]) -> Any:
        """Returns images as `forward` takes them."""
        return self._placed(self._mirror(x, (1, 2)).transpose(0, 3, 1, 2))

    def _placed(self, array: np.ndarray) -> Any:
        """Returns images or filters, [n, channels, ...], as a tensor."""
        import torch

        tensor = torch.from_numpy(array.copy())
        return tensor.to(memory_format=torch.channels_last) if self.channels_last else tensor

    def _mirror(self, array: np.ndarray, axes: tuple[int, int]) -> np.ndarray:
        return np.flip(array, axes) if self.mirrored else array


def _conv(x: Any, layer: Parameters, stride: int = 1, padding: int = 1) -> Any:
    from torch.nn import functional

    return functional.conv2d(x, layer["weight"], stride=stride, padding=padding)


def _norm(x: Any, layer: Parameters) -> Any:
    from torch.nn import functional

    scale, shift = layer["scale"], layer["shift"]
    return functional.batch_norm(x, None, None, scale, shift, True, eps=_BATCH_NORM_EPSILON)


def _cnn(params: Parameters, x: Any) -> Any:
    for name in ("Conv_0", "Conv_1"):
        x = _conv(x, params[name], 2, 0).relu()
    return x.permute(0, 2, 3, 1).flatten(1) @ params["Dense_0"]["weight"]


def _wide_resnet(params: Parameters, x: Any) -> Any:
    x = _conv(x, params["Conv_0"])
    for number, stride in enumerate((1, 2, 2)):
        block = params[f"Residual_{number}"]
        branch = block["branch"]
        inner = _conv(_norm(x, branch["BatchNorm_0"]).relu(), branch["Conv_0"], stride)
        inner = _conv(_norm(inner, branch["BatchNorm_1"]).relu(), branch["Conv_1"])
        x = inner + _conv(_every(x, stride), block["shortcut"]["Conv_0"], padding=0)
    return _norm(x, params["BatchNorm_0"]).relu().mean((2, 3)) @ params["Dense_0"]["weight"]


def _every(x: Any, stride: int) -> Any:
    """Returns every second pixel, from the last one, which is our first, on."""
    return x[:, :, stride - 1 :: stride, stride - 1 :: stride]


def _resnet20(params: Parameters, x: Any) -> Any:
    from torch.nn import functional

    x = _norm(_conv(x, params["Conv_0"]), params["BatchNorm_0"]).relu()
    for number in range(9):
        branch = params[f"Residual_{number}"]["branch"]
        more = branch["Conv_0"]["weight"].shape[0] - x.shape[1]
        stride = 2 if more else 1
        inner = _norm(_conv(x, branch["Conv_0"], stride), branch["BatchNorm_0"]).relu()
        inner = _norm(_conv(inner, branch["Conv_1"]), branch["BatchNorm_1"])
        ends = (more // 2, more - more // 2)
        x = (inner + functional.pad(_every(x, stride), (0, 0, 0, 0, *ends))).relu()
    return x.mean((2, 3)) @ params["Dense_0"]["weight"] + params["Dense_0"]["bias"]


def _layer(x: Any, layer: Parameters, heads: int) -> Any:
    from torch.nn import functional

    count, length, width = x.shape
    qkv = x @ layer["qkv"] + layer["qkv_bias"]
    query, key, value = qkv.reshape(count, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    seen = functional.scaled_dot_product_attention(query, key, value)
    seen = seen.transpose(1, 2).reshape(count, length, width)
    x = x + seen @ layer["out"] + layer["out_bias"]
    x = _layer_norm(x, layer["norm1_scale"], layer["norm1_bias"])
    inner = _gelu(x @ layer["up"] + layer["up_bias"])
    x = x + inner @ layer["down"] + layer["down_bias"]
    return _layer_norm(x, layer["norm2_scale"], layer["norm2_bias"])


def _layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    from torch.nn import functional

    return functional.layer_norm(x, x.shape[-1:], scale, bias, _LAYER_NORM_EPSILON)


def _gelu(x: Any) -> Any:
    from torch.nn import functional

    return functional.gelu(x, approximate="tanh")


# `models.cnn`, `models.wide_resnet` of depth 10 and `cifar_resnet` of depth 20.
CNN = Network(_cnn, mirrored=False)
WIDE_RESNET = Network(_wide_resnet)
RESNET_20 = Network(_resnet20)


def encoder(heads: int) -> Network:
    """Returns `growing.transformer.encoder` with so many heads and outputs for every token."""

    def forward(params: Parameters, tokens: Any) -> Any:
        x = params["tokens"][tokens] + params["positions"]
        x = _layer_norm(x, params["input_scale"], params["input_bias"])
        for number in range(len(params["layers"]["qkv"])):
            x = _layer(x, {name: stack[number] for name, stack in params["layers"].items()}, heads)
        x = _gelu(x @ params["transform"] + params["transform_bias"])
        x = _layer_norm(x, params["output_scale"], params["output_bias"])
        return x @ params["tokens"].T + params["token_bias"]

    return Network(forward)
