import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lsa_jax import _convolution
from lsa_jax._convolution import convolve, convolve_directly, gather_and_multiply, trilinear


def loops(x, weight, strides, padding):
    """Convolution by its definition, in float64, with the padding rule written out."""
    x, weight = np.asarray(x, np.float64), np.asarray(weight, np.float64)
    window = weight.shape[:2]
    if padding == "SAME":
        out = [-(-x.shape[axis + 1] // strides[axis]) for axis in (0, 1)]
        total = [
            max((out[axis] - 1) * strides[axis] + window[axis] - x.shape[axis + 1], 0)
            for axis in (0, 1)
        ]
        x = np.pad(x, [(0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)])
    out = [(x.shape[axis + 1] - window[axis]) // strides[axis] + 1 for axis in (0, 1)]
    y = np.zeros((len(x), *out, weight.shape[-1]))
    for p in range(out[0]):
        for q in range(out[1]):
            top, left = p * strides[0], q * strides[1]
            patch = x[:, top : top + window[0], left : left + window[1]]
            y[:, p, q] = np.einsum("nhwc,hwcf->nf", patch, weight)
    return y


def draw(key, size, window):
    keys = jax.random.split(key)
    return jax.random.normal(keys[0], (2, *size, 3)), jax.random.normal(keys[1], (*window, 3, 4))


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize(
    ("size", "window", "strides"),
    [
        ((7, 8), (3, 3), (2, 2)),
        ((8, 7), (2, 4), (2, 3)),
        ((5, 4), (1, 1), (2, 2)),
        ((3, 4), (3, 4), (5, 1)),
    ],
)
def test_all_ways_equal_explicit_loops(key, size, window, strides, padding):
    x, weight = draw(key, size, window)
    pads = lax.padtype_to_pads(size, window, strides, padding)
    expected = loops(x, weight, strides, padding)
    ways = jax.jit(
        lambda x, weight: [
            gather_and_multiply(x, weight, strides, pads),
            convolve_directly(x, weight, strides, pads),
            trilinear.convolve(x, weight, strides, pads),
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


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("large", [False, True])
def test_derivatives_through_transformations_equal_those_of_the_direct_way(
    key, transform, large, monkeypatch
):
    monkeypatch.setattr(_convolution, "_is_large", lambda *given: large)
    jax.clear_caches()
    x, weight = draw(key, (5, 6), (3, 3))
    pads = lax.padtype_to_pads((5, 6), (3, 3), (2, 2), "SAME")
    ours = partial(derivatives, partial(convolve, strides=(2, 2), padding="SAME"))
    direct = partial(derivatives, partial(convolve_directly, strides=(2, 2), pads=pads))
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4),
        transform(ours)(x, weight),
        transform(direct)(x, weight),
    )


@pytest.mark.parametrize(
    ("size", "window", "strides", "padding"),
    [
        ((7, 8), (3, 3), (1, 1), "SAME"),
        ((8, 7), (2, 4), (2, 3), "VALID"),
        ((6, 7), (3, 4), (5, 1), "VALID"),
    ],
)
def test_both_gradients_of_every_batch_equal_those_of_the_direct_way(
    key, size, window, strides, padding
):
    """Of one problem, and of batches of images, of filters, of outputs' cotangents, and of all."""
    pads = lax.padtype_to_pads(size, window, strides, padding)
    x, weight = draw(key, size, window)

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
            for function in (trilinear.convolve, convolve_directly)
        )
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-3), found, expected)


def test_every_derivative_within_a_loop_has_the_form_that_is_fast_on_cpus(key):
    x, weight = draw(key, (8, 6), (3, 3))

    def step(weight, x):
        function = partial(trilinear.convolve, strides=(2, 2), pads=((0, 1), (0, 1)))
        found = derivatives(function, x, weight)
        return weight - found[1] - found[2], found[0][0]

    program = jax.jit(lambda w, x: lax.scan(step, w, jnp.stack([x, x]))).lower(weight, x)
    forms = re.findall(r"dim_numbers = (\[.*?\]x\[.*?\]->\[.*?\])", program.as_text())
    assert len(forms) >= 3
    assert set(forms) == {"[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"}


def test_what_is_large_is_not_gathered_on_cpus():
    def gathers(count, size, channels, window, dtype=jnp.float32):
        x = jax.ShapeDtypeStruct((count, size, size, channels), dtype)
        weight = jax.ShapeDtypeStruct((window, window, channels, 16), dtype)
        traced = jax.jit(lambda x, w: convolve(x, w, (1, 1), "SAME")).trace(x, weight)
        return "stablehlo.convolution" not in traced.lower(lowering_platforms=("cpu",)).as_text()

    assert not gathers(128, 32, 16, 3)
    assert gathers(1, 32, 16, 3)  # the windows fit into a cache
    assert gathers(128, 32, 16, 1)  # the windows are the input
    assert gathers(128, 32, 1, 5)  # filters of few numbers
    assert gathers(128, 32, 64, 3)  # the product keeps all cores at work
    assert gathers(128, 32, 16, 3, jnp.bfloat16)


def test_program_for_each_platform_holds_its_own_way_alone(key):
    x, weight = draw(key, (5, 6), (3, 3))
    traced = jax.jit(lambda x, w: convolve(x, w, (2, 2), "SAME")).trace(x, weight)
    for platform, direct in {"cpu": False, "cuda": True, "tpu": True}.items():
        program = traced.lower(lowering_platforms=(platform,)).as_text()
        assert ("stablehlo.convolution" in program) == direct
        assert ("stablehlo.dot_general" in program) != direct
