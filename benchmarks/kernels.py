"""Kernels against neural-tangents, on the same inputs."""

import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from math import prod, sqrt
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from benchmarks import learning, structured_derivatives
from benchmarks.measure import Contest
from lsa_jax import kernels, models
from lsa_jax._convolution import convolve_directly
from lsa_jax._neural_tangents import NtkImplementation, batch, empirical_ntk_fn
from lsa_jax.models import Conv, Dense, GlobalAvgPool, Model, Relu

# Inputs are noise around a patch of brightness, as the images of the noise experiments are.
_SEED = 0


def contests(*, quick: bool) -> Iterator[Contest]:
    """Yields contests at two sizes each, or at one tiny size if `quick`."""
    pooled = [Conv(16, w_std=sqrt(2)), Relu(), Conv(16, w_std=sqrt(2)), Relu()]
    infinite: list[tuple[str, Model, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
        # (name, network, input shape, numbers of examples, neural-tangents' batch sizes)
        ("CNN 42 x 42", models.cnn(), (42, 42, 1), (500, 2000), (25, 50, 100)),
        ("3-layer FC", models.mlp(widths=(512,) * 3), (1764,), (500, 2000), (100, 250, 500)),
        (
            "CNN with global average pooling, 16 x 16",
            models.network([*pooled, GlobalAvgPool(), Dense(10)]),
            (16, 16, 3),
            (20, 40),
            (5, 10, 20),
        ),
    ]
    for name, model, shape, sizes, batches in infinite:
        for n in (4,) if quick else sizes:
            yield from _infinite(name, model, shape, n, (2,) if quick else batches)
    for width in (1, 4):
        for n in (4,) if quick else (200, 2000):
            yield from _finite(width, n, full=False)
        # All logits take a hundred numbers a pair.
        for n in (4,) if quick else (400 // width, 800 // width):
            yield from _finite(width, n, full=True)
    yield from learning.contests(quick=quick)


def _images(n: int, shape: tuple[int, ...]) -> Array:
    noise = jax.random.normal(jax.random.key(_SEED), (n, *shape))
    return noise.at[:, : shape[0] // 2].add(1.0)


def _infinite(
    name: str, model: Model, shape: tuple[int, ...], n: int, batches: tuple[int, ...]
) -> Iterator[Contest]:
    """NTK of a network at infinite width: train against itself, and test against train."""
    train, test = _images(n, shape), _images(n // 2, shape)[::-1]
    theirs = partial(model.kernel, method="neural_tangents")
    for work, x1, x2 in (("train-train", train, None), ("test-train", test, train)):
        columns = train if x2 is None else x2
        # On one device neural-tangents' programs use all cores too. It cuts batches to common
        # divisors: take those that it can keep.
        ways = itertools.product(batches, sorted({1, jax.local_device_count()}))
        fitting = [
            (b, devices)
            for b, devices in ways
            if len(x1) % (b * devices) == 0 and len(columns) % b == 0
        ]
        ours = partial(kernels.gram, model.kernel, x1, x2)
        yield Contest(
            f"infinite NTK, {name}, {work}",
            f"{len(x1)} x {len(columns)}",
            len(x1) * len(columns),
            ours,
            "neural-tangents batch",
            {
                f"batch {b} on {devices} device(s)": _batched(theirs, x1, x2, b, devices)
                for b, devices in fitting
            },
            traced=ours,
        )


def _batched(
    kernel: Callable, x1: Array, x2: Array | None, size: int, devices: int
) -> Callable[[], Array]:
    def kernel_fn(x1: Array, x2: Array | None = None, get: str = "ntk", **settings: Any) -> Array:
        del settings  # neural-tangents' own, for random keys and patterns
        return kernel(x1, x2, get)

    in_batches = batch(kernel_fn, device_count=devices, batch_size=size)

    def run() -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return in_batches(x1, x2, "ntk")

    return run


def _finite(width: int, n: int, *, full: bool) -> Iterator[Contest]:
    """NTK of the CNN at initialisation."""
    model, x = models.cnn(width), _images(n, (42, 42, 1))
    params = model.init(jax.random.key(_SEED), x.shape[1:])

    def theirs(method: NtkImplementation, apply: Callable) -> Callable[[], Array]:
        ntk = empirical_ntk_fn(
            apply, trace_axes=() if full else (-1,), vmap_axes=0, implementation=method
        )
        return partial(jax.jit(lambda params, x: ntk(x, None, params)), params, x)

    structured_derivatives.repair()
    # A contest each, as the methods need different implementations of the network.
    for method, apply in (
        (NtkImplementation.STRUCTURED_DERIVATIVES, _apply_by_operations),
        (NtkImplementation.JACOBIAN_CONTRACTION, model.apply),
    ):
        ours = partial(jax.jit(partial(kernels.empirical_ntk, model.apply, full=full)), params, x)
        yield Contest(
            f"finite NTK, CNN width {width}, {'all logits' if full else 'trace over logits'}",
            f"{n} x {n}",
            n * n,
            ours,
            "neural-tangents",
            {method.name.lower().replace("_", " "): theirs(method, apply)},
            traced=ours,
        )


def _apply_by_operations(params: dict[str, Any], x: Array) -> Array:
    """The CNN of the contest in single operations of XLA, as structured derivatives need it."""
    for name in ("Conv_0", "Conv_1"):
        weight = params[name]["weight"]
        weight = weight * sqrt(2 / prod(weight.shape[:-1]))
        x = convolve_directly(x, weight, (2, 2), ((0, 0), (0, 0)))
        x = jnp.where(x > 0, x, 0.0)
    weight = params["Dense_0"]["weight"]
    return x.reshape(len(x), len(weight)) @ (weight / sqrt(len(weight)))
