"""Which kernels go by the recursion, what is refused, and what memory they are said to take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax._neural_tangents import Missing, stax
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite.kernel import kernel_of_steps
from lsa_jax.kernels.infinite.pointwise import Relu
from lsa_jax.kernels.infinite.steps import Affine, Flatten, NeuralTangents, Pool
from lsa_jax.kernels.infinite.windows import Windows
from lsa_jax.kernels.matrices import memory

DENSE = Affine(1, 1.0, None, "ntk")
CONV = Affine(1, 1.0, None, "ntk", Windows((3, 2), (1, 1), "SAME"))
OF_ROWS = kernel_of_steps([Flatten(), DENSE, Relu(), DENSE])
OF_IMAGES = kernel_of_steps([CONV, Relu(), Pool(), DENSE])
BY_THEIRS = kernel_of_steps([DENSE, NeuralTangents(stax.Cos()), DENSE])
ROW = jax.ShapeDtypeStruct((5,), np.float32)


def test_a_transform_has_the_size_of_a_patch():
    assert OF_ROWS.transform_size((4, 3, 2)) == 24
    assert OF_ROWS.transform_size((5,)) == 5
    assert OF_IMAGES.transform_size((4, 5, 7)) == 42


def test_a_kernel_has_two_stages_where_the_recursion_has_it():
    assert OF_ROWS.stages(ROW) is not None
    assert OF_ROWS.stages(ROW, get="nngp", method="recursion") is not None
    assert OF_ROWS.stages(ROW, method="neural_tangents") is None
    assert BY_THEIRS.stages(ROW) is None


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_inputs_of_any_type_do_without_neural_tangents(dtype, monkeypatch):
    monkeypatch.setattr("lsa_jax.kernels.infinite.steps.stax", Missing("stax"))
    kernel, x = kernel_of_steps([DENSE]), jnp.ones((2, 3), dtype)
    np.testing.assert_allclose(kernel(x), np.ones((2, 2)), rtol=1e-6)
    np.testing.assert_allclose(kernels.gram(kernel, x), np.ones((2, 2)), rtol=1e-6)
    with pytest.raises(InputError, match="^neural-tangents is not installed"):
        kernel(x, method="neural_tangents")


def test_the_linear_kernel_is_the_product_by_either_method():
    linear, x = kernel_of_steps([DENSE]), jnp.arange(6.0).reshape(2, 3)
    for method in ("recursion", "neural_tangents"):
        np.testing.assert_allclose(linear(x, method=method), x @ x.T / 3, rtol=1e-6)


def test_networks_are_triples_of_functions():
    for network in (stax.Dense(1)[:2], (*stax.Dense(1)[:2], 3)):
        with pytest.raises(InputError, match="accepted: .init, apply, kernel_fn., as stax.serial"):
            kernels.infinite_of(network)


def test_the_recursion_needs_examples_on_both_sides():
    for sides in ((2, 0), (0, 2)):
        with pytest.raises(InputError, match="there are no examples"):
            OF_ROWS(*(jnp.zeros((n, 5)) for n in sides), method="recursion")


def estimate_of(kernel, monkeypatch, *shapes):
    """Returns the bytes that a call is said to take at most."""
    estimates = []

    def check(what, at_most, needed, instead):
        estimates.append(at_most)
        raise InputError("enough")

    monkeypatch.setattr(memory, "check_fits_device", check)
    with pytest.raises(InputError, match="enough"):
        kernel(*(np.broadcast_to(np.float32(0), shape) for shape in shapes))
    return estimates[0]


def test_memory_holds_inputs_and_covariances_of_all_pairs_of_positions(monkeypatch):
    """Several of each, of 4 bytes a number."""
    few_inputs = estimate_of(OF_IMAGES, monkeypatch, (200, 30, 20, 1), (300, 30, 20, 1))
    assert few_inputs > 8 * 200 * 300 * (30 * 20) ** 2
    beside_few = estimate_of(OF_IMAGES, monkeypatch, (3000, 30, 20, 1), (3, 30, 20, 1))
    assert beside_few > 8 * 3000 * 3 * (30 * 20) ** 2
    assert estimate_of(OF_IMAGES, monkeypatch, (200, 30, 20, 1)) > 8 * (200 * 600) ** 2
    assert estimate_of(OF_ROWS, monkeypatch, (3, 10**6)) > 8 * 3 * 10**6
    assert estimate_of(OF_ROWS, monkeypatch, (3, 10**6), (2, 10**6)) > 8 * 5 * 10**6
