"""Infinite-width kernels against closed forms, steps against quadrature, and refused calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from lsa_jax import kernels
from lsa_jax._neural_tangents import Missing, stax
from lsa_jax.errors import InputError
from lsa_jax.kernels import infinite_kernel
from lsa_jax.kernels.infinite import dual_activations
from lsa_jax.kernels.infinite.kernel import kernel_of_steps
from lsa_jax.kernels.infinite.pointwise import Erf, Gelu, LayerNorm, Relu, Sine
from lsa_jax.kernels.infinite.steps import Affine, Flatten, NeuralTangents, Pool, Windows
from lsa_jax.kernels.matrices import memory

DENSE = Affine(1, 1.0, None, "ntk")
CONV = Affine(1, 1.0, None, "ntk", Windows((3, 2), (1, 1), "SAME"))
OF_ROWS = kernel_of_steps([Flatten(), DENSE, Relu(), DENSE])
OF_IMAGES = kernel_of_steps([CONV, Relu(), Pool(), DENSE])
BY_THEIRS = kernel_of_steps([DENSE, NeuralTangents(stax.Cos()), DENSE])


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
    theirs = infinite_kernel(stax.serial(*layers, stax.Dense(1))[2])
    weights = Affine(1, 2**0.5, None, "ntk")
    ours = kernel_of_steps([weights, Relu(), weights, Relu(), DENSE])
    nngp, ntk = _closed_form(x)
    for kernel in (theirs, ours):
        np.testing.assert_allclose(kernel(x, None, "nngp"), nngp, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(kernel(x), ntk, rtol=1e-3, atol=1e-6)
    program = jax.jit(theirs).lower(jnp.ones((2, 3)), jnp.ones((4, 3))).as_text().splitlines()
    products = [line for line in program if "dot_general" in line]
    assert products and all("HIGHEST" in line for line in products)


def _density(z):
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


# Each nonlinearity with its derivative.
NONLINEARITIES = {
    "relu": (Relu(), lambda z: np.maximum(z, 0), lambda z: 1.0 * (z > 0)),
    "two slopes": (
        Relu(-0.3, 1.7),
        lambda z: np.where(z > 0, 1.7, -0.3) * z,
        lambda z: np.where(z > 0, 1.7, -0.3),
    ),
    "erf": (Erf(), scipy.special.erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-(z**2))),
    "gelu": (
        Gelu(),
        lambda z: z * scipy.special.ndtr(z),
        lambda z: scipy.special.ndtr(z) + z * _density(z),
    ),
    "sine": (
        Sine(0.7, 1.2, 0.4),
        lambda z: 0.7 * np.sin(1.2 * z + 0.4),
        lambda z: 0.84 * np.cos(1.2 * z + 0.4),
    ),
}
# Middles of small steps, and the weights of a standard normal number.
Z = (np.arange(400) + 0.5) / 25 - 8
WEIGHTS = _density(Z) / 25


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_duals_and_variances_are_expectations(name):
    step, phi, slope = NONLINEARITIES[name]
    for variance in (0.25, 2.56):
        expected = WEIGHTS @ phi(np.sqrt(variance) * Z) ** 2
        np.testing.assert_allclose(step.variance(jnp.float32(variance)), expected, rtol=1e-3)
    std1, std2, correlation = 1.3, 0.6, -0.4
    one, other = std1 * Z[:, None], std2 * (correlation * Z[:, None] + np.sqrt(0.84) * Z)
    scales = [step.scale(jnp.float32([std**2])) for std in (std1, std2)]
    cosine = dual_activations.cosine_of_gap(jnp.float32([1 - correlation]), 1e-6)
    found = step.duals(cosine, *(scale.std for scale in scales))
    expected = [WEIGHTS @ (f(one) * f(other)) @ WEIGHTS for f in (phi, slope)]
    # The steps of a derivative that jumps are counted to half a step.
    np.testing.assert_allclose(np.ravel(found), expected, atol=5e-3)
    np.testing.assert_allclose(np.ravel(found)[0], expected[0], atol=1e-3)
    after = np.prod([np.sqrt(WEIGHTS @ phi(std * Z) ** 2) for std in (std1, std2)])
    np.testing.assert_allclose(step.gap(cosine, *scales)[0], 1 - expected[0] / after, atol=5e-3)


def test_scales_have_deviations_and_their_inverses():
    scale = Relu().scale(jnp.float32([0.0, 0.25]))
    np.testing.assert_allclose([scale.std, scale.inverse], [[0, 0.5], [0, 2]])
    scale = LayerNorm(0.5).scale(jnp.float32([3.5]))
    np.testing.assert_allclose([scale.std, scale.inverse], [[2], [0.5]], rtol=1e-6)
    np.testing.assert_allclose(scale.after, np.sqrt([7 / 8]), rtol=1e-6)


def test_a_transform_has_the_size_of_a_patch_and_acts_on_it():
    assert OF_ROWS.transform_size((4, 3, 2)) == 24
    assert OF_IMAGES.transform_size((4, 5, 7)) == 42
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    transform = np.random.default_rng(1).normal(size=(6, 6)).astype(np.float32)
    found = OF_ROWS.transformed(transform)(x[:2], x[2:])
    rows = x @ transform
    np.testing.assert_allclose(found, OF_ROWS(rows[:2], rows[2:]), rtol=1e-4)


def test_a_kernel_has_two_stages_where_the_recursion_has_it():
    row = jax.ShapeDtypeStruct((5,), np.float32)
    assert OF_ROWS.stages(row) is not None
    assert OF_ROWS.stages(row, get="nngp", method="recursion") is not None
    assert OF_ROWS.stages(row, method="neural_tangents") is None
    assert BY_THEIRS.stages(row) is None


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_inputs_of_any_type_do_without_neural_tangents(dtype, monkeypatch):
    monkeypatch.setattr("lsa_jax.kernels.infinite.steps.stax", Missing("stax"))
    kernel, x = kernel_of_steps([DENSE]), jnp.ones((2, 3), dtype)
    np.testing.assert_allclose(kernel(x), np.ones((2, 2)), rtol=1e-6)
    np.testing.assert_allclose(kernels.gram(kernel, x), np.ones((2, 2)), rtol=1e-6)
    with pytest.raises(InputError, match="^neural-tangents is not installed"):
        kernel(x, method="neural_tangents")


def test_memory_holds_inputs_and_covariances_of_all_pairs_of_positions(monkeypatch):
    """Several of each, of 4 bytes a number."""
    bounds = []

    def check(what, at_most, needed, instead):
        bounds.append(at_most)
        raise InputError("enough")

    monkeypatch.setattr(memory, "check_fits_device", check)
    image = (30, 20, 1)
    for kernel, shapes, least in [
        (OF_IMAGES, [(200, *image), (300, *image)], 8 * 200 * 300 * 600**2),
        (OF_IMAGES, [(3000, *image), (3, *image)], 8 * 3000 * 3 * 600**2),
        (OF_IMAGES, [(200, *image)], 8 * (200 * 600) ** 2),
        (OF_ROWS, [(3, 10**6)], 8 * 3 * 10**6),
        (OF_ROWS, [(3, 10**6), (2, 10**6)], 8 * 5 * 10**6),
    ]:
        with pytest.raises(InputError, match="enough"):
            kernel(*(np.broadcast_to(np.float32(0), shape) for shape in shapes))
        assert bounds[-1] > least


@pytest.mark.usefixtures("unchecked")
def test_calls_that_no_method_evaluates_are_refused():
    two, image = jnp.ones((2, 3)), jnp.ones((2, 5, 5, 1))
    for words, call in {
        "get is 'cov1'; accepted": lambda: OF_ROWS(two, None, "cov1"),
        "x2 is": lambda: OF_ROWS(two, jnp.ones((2, 4))),
        "end in outputs": lambda: infinite_kernel(stax.Conv(1, (3, 3))[2])(image),
        "stax.serial": lambda: kernels.infinite_of((*stax.Dense(1)[:2], 3)),
        "no examples": lambda: OF_ROWS(jnp.zeros((2, 5)), jnp.zeros((0, 5)), method="recursion"),
        "method is 'magic'": lambda: OF_ROWS(two, method="magic"),
        "does not begin with": lambda: kernel_of_steps([Relu(), DENSE])(two, method="recursion"),
        # A nonlinearity of features that are not Gaussian.
        "no kernel of these layers": lambda: kernel_of_steps([CONV, Flatten(), Relu(), DENSE])(
            image
        ),
    }.items():
        with pytest.raises(InputError, match=words):
            call()
