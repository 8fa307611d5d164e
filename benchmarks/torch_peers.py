"""Full tangent kernels of finite networks by torch.func and by nngeometry, in float64.

Both are optional; they are imported only where they are installed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

# The modules that each needs.
NEEDED: dict[str, tuple[str, ...]] = {
    "torch.func": ("torch",),
    "nngeometry": ("torch", "nngeometry"),
}


def full_ntk(
    peer: str, params: dict[str, Float[np.ndarray, "..."]], x: Float[np.ndarray, "n h w c"]
) -> Callable[[], Float[np.ndarray, "n n k k"]]:
    """Returns the computation of the kernel.

    Args:
        peer: "torch.func" or "nngeometry".
        params: convolutions of stride 2 without padding and without bias ("conv0", ...), then dense
            layers ("dense0", ...) with biases ("bias0", ...); ReLU in between.
        x: inputs, channels last.
    """
    import torch

    model = _module(params)
    inputs = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
    return {"torch.func": _by_jacobians, "nngeometry": _by_nngeometry}[peer](model, inputs)


def _module(params: dict[str, np.ndarray]) -> Any:
    """Returns the network as a torch module with these parameters."""
    import torch

    layers: list[Any] = []
    channels = 0
    for name in sorted(name for name in params if name.startswith("conv")):
        channels = params[name].shape[-1]
        conv = torch.nn.Conv2d(params[name].shape[2], channels, 3, stride=2, bias=False)
        conv.weight.data = torch.from_numpy(params[name].transpose(3, 2, 0, 1).copy())
        layers += [conv, torch.nn.ReLU()]
    layers.append(torch.nn.Flatten())
    for index, name in enumerate(sorted(name for name in params if name.startswith("dense"))):
        weight = params[name]
        if index == 0:  # its inputs are flattened with channels first
            weight = _channels_first(weight, channels or 3)
        dense = torch.nn.Linear(*weight.shape)
        dense.weight.data = torch.from_numpy(weight.T.copy())
        dense.bias.data = torch.from_numpy(params[f"bias{index}"])
        layers += [dense, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]).double()


def _channels_first(weight: np.ndarray, channels: int) -> np.ndarray:
    """Reorders the rows of a weight whose inputs were flattened with channels last."""
    return weight.reshape(-1, channels, weight.shape[1]).swapaxes(0, 1).reshape(weight.shape)


def _by_jacobians(model: Any, inputs: Any) -> Callable[[], np.ndarray]:
    """Each example's Jacobian by reverse mode, then products summed over parameters."""
    import torch
    from torch import func

    params = {name: value.detach() for name, value in model.named_parameters()}

    def outputs(params: dict[str, Any], example: Any) -> Any:
        return func.functional_call(model, params, (example[None],))[0]

    def run() -> np.ndarray:
        jacobians = func.vmap(func.jacrev(outputs), (None, 0))(params, inputs)
        return sum(
            torch.einsum("nip,mjp->nmij", flat, flat)
            for flat in (jacobian.flatten(2) for jacobian in jacobians.values())
        ).numpy()

    return run


def _by_nngeometry(model: Any, inputs: Any) -> Callable[[], np.ndarray]:
    import torch
    from nngeometry.gram import GramMatrix

    examples = torch.utils.data.TensorDataset(inputs)
    loader = torch.utils.data.DataLoader(examples, batch_size=len(inputs))

    def run() -> np.ndarray:
        return GramMatrix(model, loader).to_torch().detach().permute(1, 3, 0, 2).numpy()

    return run
