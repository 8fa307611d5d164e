"""Deep kernels against a recursion in float64, where inputs are equal, or nearly so."""

import dataclasses
from math import pi

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend, kernels, models
from lsa_jax.kernels.infinite import covariances, recursion


@dataclasses.dataclass(frozen=True)
class Cosine(models.Elementwise):
    """A nonlinearity of one's own, by its duals alone."""

    def phi(self, x):
        return jnp.cos(x)

    def duals(self, covariance, variance1, variance2):
        size = jnp.exp(-(variance1 + variance2) / 2)
        return size * jnp.cosh(covariance), size * jnp.sinh(covariance)


def of_slopes(low, high):
    def duals(k, v, w):
        cosine = k / np.sqrt(v * w)
        angle = np.arccos(np.where(cosine > 1 - 1e-15, 1, np.clip(cosine, -1, 1)))
        rest = (high - low) ** 2 / (2 * pi)
        value = np.sqrt(v * w) * (np.sin(angle) + (pi - angle) * np.cos(angle))
        return low * high * k + rest * value, low * high + rest * (pi - angle)

    return duals


def of_sine(phase):
    def duals(k, v, w):
        near, far = np.exp(k - (v + w) / 2), np.cos(2 * phase) * np.exp(-k - (v + w) / 2)
        return (near - far) / 2, (near + far) / 2

    return duals


def of_erf(k, v, w):
    product = (1 + 2 * v) * (1 + 2 * w)
    return 2 / pi * np.arcsin(2 * k / np.sqrt(product)), 4 / pi / np.sqrt(product - 4 * k**2)


def of_gelu(k, v, w):
    product = (1 + v) * (1 + w)
    rest = product - k**2
    both = 1 / 4 + np.arctan2(k, np.sqrt(rest)) / (2 * pi)
    value = k * both + (k**2 + v * w * rest) / (product * np.sqrt(rest)) / (2 * pi)
    slope = 1 / rest + (1 - v * w) / product + 1
    return value, both + k / np.sqrt(rest) * slope / (2 * pi)


# With the scale of weights that keeps variances, or lets them settle.
NONLINEARITIES = {
    "relu": (models.Relu(), of_slopes(0, 1), 2**0.5),
    "leaky": (models.LeakyRelu(0.2), of_slopes(0.2, 1), 1.38),
    "two slopes": (models.ABRelu(-0.3, 1.7), of_slopes(-0.3, 1.7), 0.82),
    "abs": (models.Abs(), of_slopes(-1, 1), 1.0),
    "erf": (models.Erf(), of_erf, 1.0),
    "gelu": (models.Gelu(), of_gelu, 1.4),
    "sine": (models.Sin(), of_sine(0.0), 1.0),
    "shifted sine": (models.Sin(c=pi / 4), of_sine(pi / 4), 1.0),
    "own": (Cosine(), of_sine(pi / 2), 1.0),
}


def exact(name, layers, x, parameterization):
    """Follows covariances [n, n, h, w, h, w] and the tangent kernel through the layers."""
    x = x.astype(float).reshape(len(x), *([1, 1, -1] if x.ndim == 2 else x.shape[1:]))
    k = np.einsum("ahwc,bxyc->abhwxy", x, x) / x.shape[-1]
    return _after(name, layers, (k, 0 * k, x.shape[-1]), parameterization)


def _after(name, layers, state, parameterization):
    for layer in layers:
        k, t, channels = state
        own = np.einsum("aahwhw->ahw", k)
        v, w = own[:, None, :, :, None, None], own[None, :, None, None]
        if isinstance(layer, models.Dense | models.Conv):
            bias = layer.b_std or 0.0
            size = np.prod(layer.window) if isinstance(layer, models.Conv) else 1
            if size > 1:
                k, t = (_window_mean(a) for a in (k, t))
            mine = k * layer.w_std**2 + bias**2
            if parameterization == "standard":
                mine = size * channels * k + (bias > 0)
            k, t = k * layer.w_std**2 + bias**2, mine + layer.w_std**2 * t
            channels = layer.features
        elif isinstance(layer, models.Residual):
            branch = _after(name, layer.branch, state, parameterization)
            k, t, channels = k + branch[0], t + branch[1], channels
        elif isinstance(layer, models.LayerNorm):
            factor = 1 / np.sqrt((v + 1e-6) * (w + 1e-6))
            k, t = factor * k, factor * t
        elif isinstance(layer, models.Flatten | models.GlobalAvgPool):
            if isinstance(layer, models.Flatten):
                channels *= k.shape[2] * k.shape[3]
                k, t = (np.einsum("abhwhw->ab", a) / np.prod(a.shape[2:4]) for a in (k, t))
            else:
                k, t = (a.mean((2, 3, 4, 5)) for a in (k, t))
            k, t = (a[..., None, None, None, None] for a in (k, t))
        else:
            k, slopes = NONLINEARITIES[name][1](k, v, w)
            t = slopes * t
        state = k, t, channels
    return state


def _window_mean(a):
    """Averages over 3 x 3 positions of both images together, zeros around them."""
    h, w = a.shape[2:4]
    a = np.pad(a, [(0, 0)] * 2 + [(1, 1)] * 4)
    places = [(i, j) for i in range(3) for j in range(3)]
    parts = (a[:, :, i : i + h, j : j + w, i : i + h, j : j + w] for i, j in places)
    return sum(parts) / 9


def inputs(shape):
    """Returns inputs of many kinds; the last five are nearly equal to the first."""
    draw = np.random.default_rng(0)
    one, other, *noise = draw.normal(size=(5, *shape))
    ground = np.full(shape, -0.42)
    few = [ground.copy() for _ in range(2)]
    for image in few:
        image.flat[draw.integers(image.size, size=3)] = draw.normal(size=3)
    near = [one + size * part for size, part in zip((5e-4, 1e-4, 1e-5), noise, strict=True)]
    rows = [one, other, one, 3 * one, -one, ground, 1.7 * ground, *few, *near, 1.0003 * one]
    return np.array(rows, np.float32)


NEAR = 4


def errors(found, expected):
    """Returns the largest errors relative to the scale: of all pairs, and of nearly equal ones.

    Leaves out the one nearly opposite: these count as opposite.
    """
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    error = np.abs(np.asarray(found, float) - expected) / scale
    equal, near = [0, 2, 3], list(range(len(error) - NEAR, len(error)))
    of_near, apart = (np.zeros_like(error, bool) for _ in range(2))
    of_near[np.ix_(equal + near, near)] = of_near[np.ix_(near, equal)] = True
    apart[4, near] = apart[near, 4] = True
    return error[~of_near & ~apart].max(), error[of_near].max()


KINDS = ("dense", "residual", "normalised", "convolutions", "residual convolutions")


def network(kind, name, depth, b_std):
    """Returns layers of this kind."""
    layer, _, w_std = NONLINEARITIES[name]
    conv = kind.endswith("convolutions")
    if conv:  # a third of each window is zeros around the image
        w_std *= 1.5**0.5

    def weights(w_std):
        return models.Conv(5, w_std=w_std, b_std=b_std) if conv else models.Dense(5, w_std, b_std)

    end = [*([models.Flatten()] if conv else []), models.Dense(3, 1.1, b_std)]
    if kind.startswith("residual"):
        blocks = [models.Residual((layer, weights(0.25 * w_std))) for _ in range(depth)]
        return [weights(w_std), *blocks, layer, *end]
    norm = [models.LayerNorm(1e-6)] if kind == "normalised" else []
    return [*depth * [weights(w_std), *norm, layer], *end]


# Dense layers with each nonlinearity and the other kinds with some, at depths, with biases or none,
# and in parameterisations that take turns.
CASES = [
    (
        kind,
        name,
        (1, 8, 32 if column == 0 else 4)[(row + column) % 3],
        (None, 0.3)[(row + column // 2) % 2],
        ("ntk", "standard")[column % 2],
    )
    for column, kind in enumerate(KINDS)
    for row, name in enumerate(NONLINEARITIES)
    if column == 0 or (row + column) % 4 == 0
]


@pytest.mark.usefixtures("unchecked")  # their checks would take minutes without `jax.jit`
@pytest.mark.parametrize(("kind", "name", "depth", "b_std", "parameterization"), CASES)
def test_deep_kernels_are_those_in_float64(kind, name, depth, b_std, parameterization):
    """To 2e-6 of the scale, 1e-5 at depth 32, and 1e-3 where inputs are nearly equal.

    One operation at a time, which takes a tenth of the time that it takes to compile them all; for
    a GPU, which has no loop over positions.
    """
    layers = network(kind, name, depth, b_std)
    x = inputs((3, 2, 2) if kind.endswith("convolutions") else (784,))
    nngp, ntk, _ = exact(name, layers, x, parameterization)
    steps = models.network(layers, parameterization=parameterization).kernel.steps
    with jax.disable_jit(), backend.built_for("gpu"):
        side = recursion.examples(steps, jnp.asarray(x))
        pairs = (side.directions, side.directions), (side.norms, side.norms)
        state = covariances.first_covariances(steps, "ntk", *pairs)
        state = covariances.run(steps, state, lambda place, *_: 2 * (side.scales[place],))
        found = state.tangents()
    others, near = errors(found, ntk[:, :, 0, 0, 0, 0])
    assert others <= (1e-5 if depth == 32 else 2e-6)
    assert near <= 1e-3


def test_compiled_kernels_are_those_in_float64():
    """Of two batches, of one, in tiles of either type, and as covariances."""
    name, parameterization = "relu", "ntk"
    layers = [*2 * [models.Conv(5, w_std=2**0.5), models.Relu()], models.Flatten(), models.Dense(1)]
    x, kernel = inputs((3, 4, 2)), models.network(layers).kernel
    nngp, ntk, _ = (
        a[..., 0, 0, 0, 0] if np.ndim(a) else a for a in exact(name, layers, x, parameterization)
    )
    for found, expected in (
        (kernel(x, x), ntk),
        (kernel(x, None, "nngp"), nngp),
        (kernels.gram(kernel, x), ntk),
    ):
        others, near = errors(found, expected)
        assert others <= 2e-6
        assert near <= 1e-4
    others, near = errors(kernels.gram(kernel, x, dtype="float64"), ntk)
    assert max(others, near) <= 1e-7
