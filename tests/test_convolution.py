"""Ways to convolve, and their derivatives, against loops and XLA's own convolution."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import convolved
from jax import lax

from lsa_jax import _convolution
from lsa_jax._convolution import canonical, convolve, convolve_directly, gather_and_multiply, onednn

# Of the two ways for large inputs, those that there are on this machine.
LARGE = {"canonical": canonical.convolve}
if onednn.usable():
    LARGE["onednn"] = onednn.convolve


def draw(key, size, window, features=4):
    keys = jax.random.split(key)
    shapes = (2, *size, 3), (*window, 3, features)
    return tuple(jax.random.normal(*each) for each in zip(keys, shapes, strict=True))


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize(
    ("size", "window", "strides"),
    [
        ((7, 8), (3, 3), (2, 2)),
        ((8, 7), (2, 4), (2, 3)),
        ((5, 4), (1, 1), (1, 2)),
        ((3, 4), (3, 4), (5, 1)),
    ],
)
def test_all_ways_equal_explicit_loops(key, size, window, strides, padding):
    x, weight = draw(key, size, window)
    pads = lax.padtype_to_pads(size, window, strides, padding)
    expected = convolved(x, weight, strides, padding)
    ways = jax.jit(
        lambda x, weight: [
            gather_and_multiply(x, weight, strides, pads),
            convolve_directly(x, weight, strides, pads),
            *(way(x, weight, strides, pads) for way in LARGE.values()),
            convolve(x, weight, strides, padding),
        ]
    )
    for y in ways(x, weight):
        np.testing.assert_allclose(y, expected, atol=1e-5)


def derivatives(function, x, weight):
    """Reverse mode, forward mode, and the gradient of a linearised loss."""

    def loss(x, weight):
        return jnp.sum(jnp.tanh(function(x, weight)))

    def slope(weight):
        return jax.jvp(partial(loss, x), (weight,), (jnp.sin(weight),))[1]

    return jax.grad(loss, (0, 1))(x, weight), slope(weight), jax.grad(slope)(weight)


TRANSFORMS = {
    "eager": lambda function: function,
    "vmap": lambda function: (
        lambda x, w: jax.jit(jax.vmap(function))(jnp.stack([x, 2 * x]), jnp.stack([w, -w]))
    ),
    "scan": lambda function: (
        lambda x, w: jax.jit(
            lambda x, w: lax.scan(lambda carry, x: (carry, function(x, carry)), w, x)
        )(jnp.stack([x, 2 * x]), w)
    ),
    "pmap": lambda function: (
        lambda x, w: jax.pmap(function)(jnp.stack([x] * 8), jnp.stack([w * i for i in range(8)]))
    ),
}


WAYS = [gather_and_multiply, *LARGE.values()]
# All transformations of one way, two of each other one.
TRANSFORMED = [(way, n) for way in WAYS for n in TRANSFORMS if way in WAYS[:1] or n in "vmap scan"]


@pytest.mark.parametrize(("way", "name"), TRANSFORMED)
def test_derivatives_through_transformations_equal_those_of_the_direct_way(
    key, way, name, monkeypatch
):
    transform = TRANSFORMS[name]
    monkeypatch.setattr(_convolution, "_way_on_cpus", lambda *given: way)
    size = 6 + WAYS.index(way), 6  # each way has its own, as programs are kept by their sizes
    x, weight = draw(key, size, (3, 3))
    pads = lax.padtype_to_pads(size, (3, 3), (2, 2), "SAME")
    ours = partial(derivatives, partial(convolve, strides=(2, 2), padding="SAME"))
    direct = partial(derivatives, partial(convolve_directly, strides=(2, 2), pads=pads))
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4),
        transform(ours)(x, weight),
        transform(direct)(x, weight),
    )


@pytest.mark.parametrize(
    ("size", "window", "strides", "padding", "features"),
    [
        ((7, 8), (3, 3), (1, 1), "SAME", 2),  # of few features two neighbours at once
        ((5, 4), (3, 2), (1, 1), "VALID", 17),
        ((8, 7), (2, 4), (2, 3), "VALID", 4),
        ((6, 7), (3, 4), (5, 1), "VALID", 4),
        ((7, 6), (2, 1), (3, 2), "VALID", 2),  # windows smaller than steps
    ],
)
@pytest.mark.parametrize("way", LARGE.values(), ids=LARGE)
def test_both_gradients_of_every_batch_equal_those_of_the_direct_way(
    key, way, size, window, strides, padding, features
):
    """Of one problem, and of batches of images, of filters, of outputs' cotangents, and of all."""
    pads = lax.padtype_to_pads(size, window, strides, padding)
    x, weight = draw(key, size, window, features)

    def gradients(function, x, weight, scale):
        y, back = jax.vjp(lambda x, w: function(x, w, strides, pads), x, weight)
        return back(jnp.sin(scale * y))

    for axes in [(None, None, None), (0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0)]:
        given = [
            value if axis is None else jnp.stack([value, 2 * value])
            for value, axis in zip((x, weight, jnp.float32(1)), axes, strict=True)
        ]
        found, expected = (
            jax.jit(
                partial(gradients, function)
                if axes == (None,) * 3
                else jax.vmap(partial(gradients, function), axes)
            )(*given)
            for function in (way, convolve_directly)
        )
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-3), found, expected)


@pytest.mark.skipif("onednn" not in LARGE, reason="no oneDNN for this machine in this jaxlib")
def test_large_sums_by_onednn_are_those_of_float64(key):
    """Channels, features and examples that fill no vector, and windows of a stride."""
    keys = jax.random.split(key, 3)
    x = jax.random.normal(keys[0], (19, 23, 23, 7))
    weight = jax.random.normal(keys[1], (5, 5, 7, 21))
    pads = lax.padtype_to_pads((23, 23), (5, 5), (2, 2), "SAME")
    y, back = jax.vjp(lambda x, w: onednn.convolve(x, w, (2, 2), pads), x, weight)
    cotangent = jax.random.normal(keys[2], y.shape)
    with jax.enable_x64(True):
        wide = [jnp.asarray(np.asarray(a), jnp.float64) for a in (x, weight, cotangent)]
        exact, exact_back = jax.vjp(lambda x, w: convolve_directly(x, w, (2, 2), pads), *wide[:2])
        expected = [np.asarray(a) for a in (exact, *exact_back(wide[2]))]
    for found, true in zip([y, *back(cotangent)], expected, strict=True):
        np.testing.assert_allclose(found, true, atol=2e-6 * np.abs(true).max())


def test_program_for_each_platform_holds_its_own_way_alone(key):
    x, weight = draw(key, (5, 6), (3, 3))
    traced = jax.jit(lambda x, w: convolve(x, w, (2, 2), "SAME")).trace(x, weight)
    for platform, direct in {"cpu": False, "cuda": True, "tpu": True}.items():
        program = traced.lower(lowering_platforms=(platform,)).as_text()
        assert ("stablehlo.convolution" in program) == direct
        assert ("stablehlo.dot_general" in program) != direct
