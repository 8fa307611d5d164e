"""Infinite-width kernels against closed forms, and refused calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax._neural_tangents import Missing, stax
from lsa_jax.errors import InputError
from lsa_jax.kernels import infinite_of
from lsa_jax.kernels.infinite.kernel import kernel_of_steps
from lsa_jax.kernels.infinite.pointwise import Relu
from lsa_jax.kernels.infinite.steps import Affine, Flatten, Pool, Windows

DENSE = Affine(1, 1.0, None, "ntk")
CONV = Affine(1, 1.0, None, "ntk", Windows((3, 2), (1, 1), "SAME"))
OF_ROWS = kernel_of_steps([Flatten(), DENSE, Relu(), DENSE])
OF_IMAGES = kernel_of_steps([CONV, Relu(), Pool(), DENSE])


def _closed_form(x):
    """Two hidden ReLU layers, w_std^2 = 2: Cho and Saul's kernels of order 0 and 1, iterated."""
    x = np.asarray(x, float)
    nngp = 2 * x @ x.T / x.shape[1]
    norm = 2 * (x**2).sum(1) / x.shape[1]
    ntk = nngp.copy()
    for factor in (2.0, 1.0):  # scale of the layer that follows
        size = np.sqrt(np.outer(norm, norm))
        cosine = np.clip(np.divide(nngp, size, out=np.zeros_like(nngp), where=size > 0), -1, 1)
        angle = np.arccos(cosine)
        slope = np.where(size > 0, (np.pi - angle) / (2 * np.pi), 0)
        nngp = factor * size * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)
        ntk = nngp + factor * slope * ntk
        norm = factor * norm / 2
    return nngp, ntk


def test_both_methods_equal_the_closed_form(key):
    """Also of equal, opposite, orthogonal, zero and badly scaled inputs."""
    special = [[1.0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, 0], [1e4, 0, 0], [0, 1e-4, 0]]
    x = jnp.concatenate([jax.random.normal(key, (5, 3)), jnp.array(special)])
    layers = 2 * [stax.Dense(1, 2**0.5), stax.Relu()]
    theirs = infinite_of(stax.serial(*layers, stax.Dense(1)))
    weights = Affine(1, 2**0.5, None, "ntk")
    ours = kernel_of_steps([weights, Relu(), weights, Relu(), DENSE])
    nngp, ntk = _closed_form(x)
    for kernel in (theirs, ours):
        np.testing.assert_allclose(kernel(x, None, "nngp"), nngp, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(kernel(x), ntk, rtol=1e-3, atol=1e-6)
    program = jax.jit(theirs).lower(jnp.ones((2, 3)), jnp.ones((4, 3))).as_text().splitlines()
    products = [line for line in program if "dot_general" in line]
    assert products and all("HIGHEST" in line for line in products)


def test_a_transform_has_the_size_of_a_patch_and_acts_on_it():
    assert OF_ROWS.transform_size((4, 3, 2)) == 24
    assert OF_IMAGES.transform_size((4, 5, 7)) == 42
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    transform = np.random.default_rng(1).normal(size=(6, 6)).astype(np.float32)
    found = OF_ROWS.transformed(transform)(x[:2], x[2:])
    rows = x @ transform
    np.testing.assert_allclose(found, OF_ROWS(rows[:2], rows[2:]), rtol=1e-4)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_inputs_of_any_type_do_without_neural_tangents(dtype, monkeypatch):
    monkeypatch.setattr("lsa_jax.kernels.infinite.neural_tangents.stax", Missing("stax"))
    kernel, x = kernel_of_steps([DENSE]), jnp.ones((2, 3), dtype)
    np.testing.assert_allclose(kernel(x), np.ones((2, 2)), rtol=1e-6)
    np.testing.assert_allclose(kernels.gram(kernel, x), np.ones((2, 2)), rtol=1e-6)
    with pytest.raises(InputError, match="^neural-tangents is not installed"):
        kernel(x, method="neural_tangents")


@pytest.mark.usefixtures("unchecked")
def test_calls_that_no_method_evaluates_are_refused():
    two, image = jnp.ones((2, 3)), jnp.ones((2, 5, 5, 1))
    for words, call in {
        "get is 'cov1'; accepted": lambda: OF_ROWS(two, None, "cov1"),
        "end in outputs": lambda: infinite_of(stax.Conv(1, (3, 3)))(image),
        "stax.serial": lambda: infinite_of((*stax.Dense(1)[:2], 3)),
        "method is 'magic'": lambda: OF_ROWS(two, method="magic"),
        "does not begin with": lambda: kernel_of_steps([Relu(), DENSE])(two, method="recursion"),
        # A nonlinearity of features that are not Gaussian.
        "no kernel of these layers": lambda: kernel_of_steps([CONV, Flatten(), Relu(), DENSE])(
            image
        ),
    }.items():
        with pytest.raises(InputError, match=words):
            call()
