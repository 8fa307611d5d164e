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


def test_products_of_neural_tangents_are_in_full_precision():
    theirs = infinite_of(stax.serial(stax.Dense(1, 2**0.5), stax.Relu(), stax.Dense(1)))
    program = jax.jit(theirs).lower(jnp.ones((2, 3)), jnp.ones((4, 3))).as_text().splitlines()
    products = [line for line in program if "dot_general" in line]
    assert products and all("HIGHEST" in line for line in products)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_inputs_of_any_type_do_without_neural_tangents(dtype, monkeypatch):
    monkeypatch.setattr("lsa_jax.kernels.infinite.neural_tangents.stax", Missing("stax"))
    kernel, x = kernel_of_steps([DENSE]), jnp.ones((2, 3), dtype)
    np.testing.assert_allclose(kernel(x), np.ones((2, 2)), rtol=1e-6)
    np.testing.assert_allclose(kernels.gram(kernel, x), np.ones((2, 2)), rtol=1e-6)
    with pytest.raises(InputError, match="^neural-tangents is not installed"):
        kernel(x, method="neural_tangents")
