"""Random stacks of layers: our recursion against neural-tangents, and against finite networks."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsa_jax import kernels
from lsa_jax.models import (
    AvgPool,
    Concat,
    Conv,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    GlobalSumPool,
    LayerNorm,
    LeakyRelu,
    Relu,
    Residual,
    Sin,
    SumPool,
    network,
)

NONLINEARITIES = (Relu(), LeakyRelu(0.3), Erf(), Gelu(), Sin(0.8, 1.1, 0.4))


def _after(size, window, stride, padding):
    return -(-size // stride) if padding == "SAME" else (size - window) // stride + 1


@st.composite
def stacks(draw, width=3):
    """Returns layers that the recursion has, and the shape of an example."""
    image = draw(st.booleans())
    shape = tuple(draw(st.integers(2, 4)) for _ in range(2 * image)) + (draw(st.integers(1, 3)),)
    sides = shape[:-1]

    def scales():
        return {
            "w_std": draw(st.floats(0.6, 1.6)),
            "b_std": draw(st.none() | st.floats(0.1, 0.6)),
        }

    def windows():
        nonlocal sides
        window = tuple(draw(st.integers(1, min(3, size))) for size in sides)
        strides = tuple(draw(st.integers(1, 2)) for _ in sides)
        padding = draw(st.sampled_from(["SAME", "VALID"]))
        given = zip(sides, window, strides, strict=True)
        sides = tuple(_after(*each, padding) for each in given)
        return window, strides, padding

    def affine(*, same=False):
        if not sides or draw(st.integers(0, 3)) == 0:
            return Dense(width, **scales())
        return Conv(width, *(((3, 2), (1, 1), "SAME") if same else windows()), **scales())

    def nonlinearity():
        return draw(st.sampled_from(NONLINEARITIES))

    layers = [affine()]
    for _ in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["plain", "norm", "residual", "side by side", "pool"]))
        if kind == "residual":
            shortcut = draw(st.sampled_from([(), (Dense(width, **scales()),)]))
            layers.append(Residual((nonlinearity(), affine(same=True)), shortcut))
            continue
        layers += [LayerNorm()] * (kind == "norm") + [nonlinearity()]
        if kind == "side by side":
            layers[-1:] = [Concat(((nonlinearity(),), (affine(same=True),)))]
        if kind == "pool" and sides:
            layers.append(draw(st.sampled_from([AvgPool, SumPool]))(*windows()))
        layers.append(affine())
    layers.append(nonlinearity())
    if image:
        layers.append(draw(st.sampled_from([Flatten(), GlobalAvgPool(), GlobalSumPool()])))
    return [*layers, Dense(2, **scales())], shape


def _inputs(shape, n=5):
    """Some in general position, two that are equal, two opposite, and one of zeros."""
    x = np.random.default_rng(0).normal(size=(n, *shape))
    return np.concatenate([x, x[:1], -x[:1], 0 * x[:1]]).astype(np.float32)


@pytest.mark.usefixtures("unchecked", "quick_compilation")
@pytest.mark.filterwarnings("ignore:`FanIn` layers assume independent inputs")
@pytest.mark.filterwarnings("ignore:Got potentially mismatching `channel_axis`")
@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    stacks(), st.sampled_from(["ntk", "standard"]), st.sampled_from(["ntk", "nngp"]), st.booleans()
)
def test_kernels_are_those_of_neural_tangents(stack, parameterization, get, symmetric):
    layers, shape = stack
    kernel, x = network(layers, parameterization=parameterization).kernel, _inputs(shape)
    others = None if symmetric else x[2:]
    ours = np.asarray(kernel(x, others, get, "recursion"), float)
    with jax.enable_x64(True):
        theirs = jax.jit(partial(kernel, get=get, method="neural_tangents"))
        expected = np.asarray(theirs(jnp.asarray(x, jnp.float64)))
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected))) + 1e-30
    rows = x.reshape(len(x), -1)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    # Correlations near -1 are rounded: nearly opposite inputs count as opposite.
    limit = np.where(rows @ rows.T < -0.99, 1e-3, 2e-5) * scale
    columns = slice(0 if symmetric else 2, None)
    assert np.all(np.abs(ours - expected[:, columns]) <= limit[:, columns])


@pytest.mark.usefixtures("quick_compilation")
@settings(max_examples=1, deadline=None, derandomize=True)
@given(stacks(width=48))
def test_kernels_are_means_over_wide_networks(stack):
    layers, shape = stack
    model, x = network(layers), _inputs(shape, n=2)[:3]
    found = kernels.monte_carlo_kernel(
        jax.random.key(0),
        lambda key: model.init(key, shape),
        model.apply,
        x,
        min_draws=40,
        max_draws=40,
    )
    expected = np.asarray(model.kernel(x))
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # A network of 48 channels differs by a few of its 1 / 48.
    assert np.all(np.abs(found.mean - expected) <= 4 * found.error + 0.1 * scale)
