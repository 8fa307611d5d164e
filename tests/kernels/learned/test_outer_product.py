"""Gradients of kernel predictors against closed forms and autodiff in float64."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels, models
from lsa_jax.kernels.infinite import recursion, tiles
from lsa_jax.kernels.infinite.neural_tangents import serial
from lsa_jax.kernels.infinite.steps import Affine
from lsa_jax.models import AvgPool, Conv, Dense, Erf, Flatten, Gelu, GlobalAvgPool, Relu

pytestmark = pytest.mark.usefixtures("quick_compilation")
NETS = {
    "convolutional": (
        [Conv(4, strides=(2, 2), padding="VALID", w_std=1.4), Relu(), Conv(4), Relu(), Flatten()],
        (7, 6, 2),
    ),
    "fully connected": ([Flatten(), Dense(4, 1.4, 0.3), Relu(), Dense(4), Erf()], (3, 2, 2)),
    "pools": (
        [Conv(3, b_std=0.3), Relu(), AvgPool((2, 2), (2, 1)), Conv(2), Gelu(), GlobalAvgPool()],
        (4, 3, 2),
    ),
}


def make(name, parameterization="ntk"):
    layers, shape = NETS[name]
    return models.network([*layers, Dense(2)], parameterization=parameterization), shape


def draw(shape, n, m, outputs=3):
    rng = np.random.default_rng(0)
    x, points = (rng.normal(size=(count, *shape)).astype(np.float32) for count in (n, m))
    return x, points, rng.normal(size=(n, outputs))


def a_transform(size):
    noise = np.random.default_rng(1).normal(size=(size, size))
    return np.float32(np.eye(size) + 0.1 * (noise + noise.T))


def patches_of(steps, x):
    return np.moveaxis(np.asarray(recursion.patches(steps, jnp.asarray(x))), -1, 0)


def of_patches(steps, get):
    """neural-tangents' kernel of the same network, of patches already cut out."""
    start = next(i for i, step in enumerate(steps) if isinstance(step, Affine))
    kernel = serial((dataclasses.replace(steps[start], windows=None), *steps[start + 1 :]))[2]
    return lambda p1, p2: kernel(p1, p2, get)


@jax.default_matmul_precision("highest")
def dense_reference(kernel, weights, x, points, transform, get):
    """Every gradient by jax in float64, through neural-tangents."""
    of = of_patches(kernel.steps, get)
    with jax.enable_x64(True):
        own, others = (jnp.asarray(patches_of(kernel.steps, z).astype(float)) for z in (points, x))
        wide = jnp.asarray(transform, jnp.float64)

        def predict(p):
            return of((p @ wide)[None], others @ wide)[0] @ jnp.asarray(weights)

        slopes = jax.jit(jax.jacrev(predict))
        grads = np.concatenate([np.asarray(slopes(p)).reshape(-1, p.shape[-1]) for p in own])
    return grads.T @ grads / len(points)


@pytest.mark.filterwarnings("ignore:`FanIn` layers assume:UserWarning")
@pytest.mark.parametrize(
    ("name", "get", "parameterization"),
    [
        ("convolutional", "ntk", "standard"),
        ("fully connected", "ntk", "ntk"),
        ("pools", "ntk", "ntk"),
    ],
)
def test_gradients_through_the_recursion_are_those_of_autodiff_in_float64(
    name, get, parameterization
):
    model, shape = make(name, parameterization)
    x, points, weights = draw(shape, 7, 3)
    transform = a_transform(model.kernel.transform_size(shape))
    kernel = functools.partial(model.kernel.transformed(transform), get=get)
    found = kernels.average_gradient_outer_product(kernel, weights, x, points)
    reference = dense_reference(model.kernel, weights, x, points, transform, get)
    np.testing.assert_allclose(found, reference, rtol=0, atol=5e-6 * np.abs(reference).max())


def test_blocks_and_tiles_leave_no_trace(monkeypatch):
    """More examples and points than a block holds, against the same by jax's own gradients."""
    model = models.network([Dense(5, 1.4), Erf(), Dense(1)])
    x, points, weights = draw((3,), 37, 21)
    whole = kernels.average_gradient_outer_product(model.kernel, weights, x, points)
    monkeypatch.setattr("lsa_jax.kernels.learned.outer_product._POINTS", 8)
    monkeypatch.setattr(tiles, "largest_side", lambda: 8)
    monkeypatch.setattr(tiles, "tile_size", lambda *_, **__: (4, 8))
    fractions = []
    for kernel in (model.kernel, lambda z, x: model.kernel(z, x)):
        found = kernels.average_gradient_outer_product(
            kernel, weights, x, points, progress=fractions.append
        )
        np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5 * np.abs(whole).max())
    assert fractions[:6] == sorted(fractions[:6]) and fractions[5] == fractions[-1] == 1.0


def test_rows_have_the_sum_of_their_gradients_outer_products():
    """Of f(X) = sum_i h(X_i) the gradient at a row is that of h there."""

    def of_rows(z, x):
        return jnp.einsum("mpd,nqd->mn", jnp.tanh(z), x)

    x, points, weights = draw((4, 3), 5, 6, outputs=2)
    slope = (weights.T @ x.sum(axis=1))[None, None] * (1 - np.tanh(points) ** 2)[:, :, None]
    expected = np.einsum("mpcd,mpce->de", slope, slope) / 6
    found = kernels.average_gradient_outer_product(of_rows, weights, x, points, rows=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    whole = kernels.average_gradient_outer_product(of_rows, weights, x, points)
    blocks = whole.reshape(4, 3, 4, 3)
    np.testing.assert_allclose(np.einsum("pdpe->de", blocks), expected, rtol=1e-4, atol=1e-4)


def test_a_transformed_kernel_is_that_of_transformed_patches():
    model, shape = make("convolutional")
    x, others, _ = draw(shape, 5, 4)
    transform = a_transform(model.kernel.transform_size(shape))
    kernel = model.kernel.transformed(transform)
    by_tiles, at_once = kernels.gram(kernel, x, others, tile=2), np.asarray(kernel(x, others))
    np.testing.assert_allclose(by_tiles, at_once, rtol=1e-6)
    with jax.enable_x64(True):
        pairs = (
            jnp.asarray(patches_of(model.kernel.steps, z) @ transform, jnp.float64)
            for z in (x, others)
        )
        reference = np.asarray(of_patches(model.kernel.steps, "ntk")(*pairs))
    np.testing.assert_allclose(at_once, reference, rtol=2e-6)
    same = np.asarray(model.kernel.transformed(np.eye(len(transform)))(x, others))
    np.testing.assert_allclose(same, np.asarray(model.kernel(x, others)), rtol=1e-6)
