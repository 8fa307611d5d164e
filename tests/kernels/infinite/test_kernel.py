"""Infinite-width kernels against the arc-cosine formulas, also where angles are 0 or pi."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax._neural_tangents import stax
from lsa_jax.errors import InputError
from lsa_jax.kernels import infinite_kernel

KERNEL = infinite_kernel(
    stax.serial(
        stax.Dense(1, 2**0.5), stax.Relu(), stax.Dense(1, 2**0.5), stax.Relu(), stax.Dense(1)
    )[2]
)


def _closed_form(x1, x2):
    """Two hidden ReLU layers, w_std^2 = 2: Cho and Saul's kernels of order 0 and 1, iterated."""
    x1, x2 = np.asarray(x1, float), np.asarray(x2, float)
    d = x1.shape[1]
    nngp = 2 * x1 @ x2.T / d
    norm1, norm2 = 2 * (x1**2).sum(1) / d, 2 * (x2**2).sum(1) / d
    ntk = nngp.copy()
    for factor in (2.0, 1.0):  # scale of the layer that follows
        size = np.sqrt(np.outer(norm1, norm2))
        cosine = np.clip(np.divide(nngp, size, out=np.zeros_like(nngp), where=size > 0), -1, 1)
        angle = np.arccos(cosine)
        slope = np.where(size > 0, (np.pi - angle) / (2 * np.pi), 0)
        nngp = factor * size * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)
        ntk = nngp + factor * slope * ntk
        norm1, norm2 = factor * norm1 / 2, factor * norm2 / 2
    return nngp, ntk


def test_kernels_equal_the_closed_form(key):
    x1, x2 = jax.random.normal(key, (5, 6)), jax.random.normal(jax.random.key(1), (7, 6))
    nngp, ntk = _closed_form(x1, x2)
    np.testing.assert_allclose(KERNEL(x1, x2, "nngp"), nngp, rtol=1e-5)
    np.testing.assert_allclose(KERNEL(x1, x2), ntk, rtol=1e-5)


def test_equal_opposite_orthogonal_zero_and_badly_scaled_inputs_are_exact():
    x = jnp.array(
        [[1.0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, 0], [1e4, 0, 0], [0, 1e-4, 0]]
    )
    nngp, ntk = _closed_form(x, x)
    np.testing.assert_allclose(KERNEL(x, None, "nngp"), nngp, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(KERNEL(x), ntk, rtol=1e-3, atol=1e-6)


def test_products_of_neural_tangents_are_in_full_precision():
    program = jax.jit(KERNEL).lower(jnp.ones((2, 3)), jnp.ones((4, 3))).as_text().splitlines()
    products = [line for line in program if "dot_general" in line]
    assert products and all("HIGHEST" in line for line in products)


@pytest.mark.usefixtures("unchecked")
def test_other_kernels_and_shapes_that_differ_are_refused():
    with pytest.raises(InputError, match="get is 'cov1'; accepted: ntk, nngp"):
        KERNEL(jnp.ones((2, 3)), None, "cov1")
    with pytest.raises(InputError, match=r"x1 is \(2, 3\) and x2 is \(2, 4\)"):
        KERNEL(jnp.ones((2, 3)), jnp.ones((2, 4)))


def test_a_network_that_does_not_end_in_outputs_is_refused():
    image_to_image = infinite_kernel(stax.Conv(1, (3, 3))[2])
    with pytest.raises(InputError, match=r"networks that end in outputs \[n, c\]"):
        image_to_image(jnp.ones((2, 5, 5, 1)))
