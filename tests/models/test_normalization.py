"""Batch normalisation's own rule of differentiation is that of its formula."""

import jax
import jax.numpy as jnp
import numpy as np

from lsa_jax.models.layers.normalization import normalise_batch

EPSILON = 0.3  # large enough to count in derivatives at variances of order 1


def formula(x, scale, shift):
    mean = x.mean((0, 1), keepdims=True)
    variance = jnp.square(x - mean).mean((0, 1), keepdims=True)
    return (x - mean) / jnp.sqrt(variance + EPSILON) * scale[None, None] + shift[None, None]


def derivatives(function, given, direction):
    """Outputs, forward mode, reverse mode, and forward mode over the gradient of a scalar."""

    def slope(given):
        return jax.grad(lambda given: jnp.sum(jnp.sin(function(*given))))(given)

    outputs, back = jax.vjp(function, *given)
    return (
        outputs,
        jax.jvp(function, given, direction)[1],
        back(jnp.cos(outputs)),
        jax.jvp(slope, (given,), (direction,))[1],
    )


def test_derivatives_of_any_order_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    shapes = ((5, 4, 3), (3,), (3,))
    with jax.enable_x64(True):
        given, direction = (
            tuple(jnp.asarray(rng.standard_normal(shape) + 2) for shape in shapes) for _ in range(2)
        )
        found, expected = (
            derivatives(function, given, direction)
            for function in (lambda *given: normalise_batch(*given, EPSILON), formula)
        )
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), found, expected)
