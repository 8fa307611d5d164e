"""The evaluation of a network's kernel by neural-tangents."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from lsa_jax._neural_tangents import stax
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite import pointwise, steps
from lsa_jax.kernels.infinite.steps import Step


def serial(network: Sequence[Step]) -> Any:
    """Returns the network of neural-tangents that the steps describe: (init, apply, kernel)."""
    return stax.serial(*map(_layer, network)) if network else stax.Identity()


def _layer(step: Step) -> Any:
    """Returns the same layer of neural-tangents: (init, apply, kernel)."""
    match step:
        case steps.Affine(features, w_std, b_std, parameterization, windows):
            scales = {"W_std": w_std, "b_std": b_std, "parameterization": parameterization}
            if windows is None:
                return stax.Dense(features, **scales)
            return stax.Conv(features, *dataclasses.astuple(windows), **scales)
        case steps.Flatten():
            return stax.Flatten()
        case steps.Pool(None, total):
            return stax.GlobalSumPool() if total else stax.GlobalAvgPool()
        case steps.Pool(windows, total):
            pool = stax.SumPool if total else stax.AvgPool
            return pool(*dataclasses.astuple(windows))
        case steps.Sum() | steps.Concat():
            join = stax.FanInSum() if isinstance(step, steps.Sum) else stax.FanInConcat(-1)
            paths = stax.parallel(*map(serial, step.paths))
            return stax.serial(stax.FanOut(len(step.paths)), paths, join)
        case steps.NeuralTangents(layer):
            return layer
        case pointwise.Relu(negative_slope, positive_slope):
            return stax.ABRelu(negative_slope, positive_slope)
        case pointwise.Erf():
            return stax.Erf()
        case pointwise.Gelu():
            return stax.Gelu()
        case pointwise.Sine(a, b, c):
            return stax.Sin(a, b, c)
        case pointwise.LayerNorm(epsilon):
            return stax.LayerNorm(eps=epsilon)
        case pointwise.Dropout(keep):
            return stax.Dropout(keep)
        case pointwise.Elementwise(own):
            values, slopes = (lambda *m, i=i: own.duals(*m)[i] for i in range(2))
            return stax.Elementwise(own.phi, values, slopes)
    raise TypeError(f"there is no layer of neural-tangents for {step!r}")


@jax.default_matmul_precision("highest")
def evaluate(
    kernel_fn: Callable,
    x1: Array | np.ndarray,
    x2: Array | np.ndarray | None,
    get: str,
    why: str | None,
) -> Array:
    """Computes the kernel by neural-tangents; `why` is the reason, if not the user's choice."""
    with warnings.catch_warnings():
        # models.Residual sees to the independence that this warning asks for.
        warnings.filterwarnings("ignore", "`FanIn` layers assume independent", UserWarning)
        try:
            return kernel_fn(x1, x2, get)
        except InputError as error:  # it is not installed
            raise InputError(f"{why}; {error}") if why else error from None
        except (NotImplementedError, ValueError) as error:
            first = str(error).splitlines()[0]
            raise InputError(
                f"neural-tangents has no kernel of these layers: {first}; accepted: layers and "
                f"inputs {x1.shape} that it has one of"
            ) from error
