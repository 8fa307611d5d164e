"""What each step says of a network against expectations by quadrature and means over positions."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from lsa_jax.kernels.infinite import dual_activations
from lsa_jax.kernels.infinite.pointwise import Erf, Gelu, LayerNorm, Relu, Sine
from lsa_jax.kernels.infinite.steps import Affine, Concat, Flatten, Pool, Sum, serial
from lsa_jax.kernels.infinite.windows import Windows


def normal(z):
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
        lambda z: scipy.special.ndtr(z) + z * normal(z),
    ),
    "sine": (
        Sine(0.7, 1.2, 0.4),
        lambda z: 0.7 * np.sin(1.2 * z + 0.4),
        lambda z: 0.84 * np.cos(1.2 * z + 0.4),
    ),
}
# Middles of small steps, and the weights of a standard normal number.
Z = (np.arange(400) + 0.5) / 25 - 8
WEIGHTS = normal(Z) / 25


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_a_variance_after_a_nonlinearity_is_its_second_moment(name):
    step, phi, _ = NONLINEARITIES[name]
    for variance in (0.25, 2.56):
        expected = WEIGHTS @ phi(np.sqrt(variance) * Z) ** 2
        np.testing.assert_allclose(step.variance(jnp.float32(variance)), expected, rtol=1e-3)


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_duals_are_expectations_over_two_correlated_numbers(name):
    step, phi, slope = NONLINEARITIES[name]
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


def test_a_variance_of_zero_has_neither_a_deviation_nor_its_inverse():
    scale = Relu().scale(jnp.float32([0.0, 0.25]))
    np.testing.assert_allclose(scale.std, [0, 0.5])
    np.testing.assert_allclose(scale.inverse, [0, 2])


def test_a_layer_norm_divides_by_the_deviation_with_its_epsilon():
    step = LayerNorm(0.5)
    np.testing.assert_allclose(step.variance(jnp.float32(1.5)), 0.75)
    scale = step.scale(jnp.float32([3.5]))
    np.testing.assert_allclose([scale.std, scale.inverse], [[2], [0.5]], rtol=1e-6)
    np.testing.assert_allclose(scale.after, np.sqrt([7 / 8]), rtol=1e-6)


def test_biases_add_their_variance_and_no_biases_nothing():
    assert Affine(1, 1.0, None, "ntk").bias_variance == 0
    assert Affine(1, 1.0, 0.3, "ntk").bias_variance == pytest.approx(0.09)


# --- the same layers of neural-tangents ---------------------------------------------------------

X = np.random.default_rng(0).normal(size=(2, 3, 4, 2)).astype(np.float32)
# Covariances of all pairs of positions after a layer that mixes the two channels.
PAIRS = np.einsum("ahwc,bxyc->abhwxy", X, X) / 2
FIRST = Affine(1, 1.0, None, "ntk", Windows((1, 1), (1, 1), "VALID"))
WINDOWS = Windows((3, 2), (1, 2), "VALID")
HALVES = [PAIRS[:, :, :, half, :, half] for half in (slice(2), slice(2, 4))]
AVERAGES = {
    "mean of all": ([Pool()], PAIRS.mean((2, 3, 4, 5))),
    "sum of all": ([Pool(total=True)], PAIRS.sum((2, 3, 4, 5))),
    "windows": ([Pool(WINDOWS), Flatten()], sum(h.mean((2, 3, 4, 5)) for h in HALVES) / 2),
    "sums": ([Pool(WINDOWS, total=True), Flatten()], sum(h.sum((2, 3, 4, 5)) for h in HALVES) / 2),
    "flat": ([Flatten()], np.einsum("abhwhw->ab", PAIRS) / 12),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_neural_tangents_averages_over_pairs_of_positions(name):
    steps, expected = AVERAGES[name]
    kernel = serial([FIRST, *steps])[2](X, None, "nngp")
    np.testing.assert_allclose(kernel, expected, rtol=1e-4, atol=1e-6)


def test_neural_tangents_has_the_duals_of_a_nonlinearity_of_ones_own():
    x = X[:, 0, 0]
    steps = [Affine(1, 1.0, None, "ntk"), NONLINEARITIES["sine"][0], Affine(1, 1.5, 0.2, "ntk")]
    nngp, ntk = serial(steps)[2](x, None, ("nngp", "ntk"))
    before = x @ x.T / 2
    mean = (np.diag(before)[:, None] + np.diag(before)) / 2
    near, far = (np.exp(1.44 * (sign * before - mean)) for sign in (1, -1))
    expected = 2.25 * 0.245 * (near - far * np.cos(0.8)) + 0.04
    np.testing.assert_allclose(nngp, expected, rtol=1e-5)
    slopes = 1.44 * 0.245 * (near + far * np.cos(0.8))
    np.testing.assert_allclose(ntk, expected + 2.25 * slopes * before, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:`FanIn` layers assume independent inputs")
def test_neural_tangents_adds_paths_or_averages_them_over_their_features():
    x = X[:, 0, 0]
    one, other, wide = (Affine(n, w, None, "ntk") for n, w in ((1, 2.0), (1, 1.0), (3, 1.0)))
    covariance = x @ x.T / 2
    for step, factor in ((Sum((one,), (other,)), 5), (Concat(((one,), (wide,))), 7 / 4)):
        found = serial([step])[2](x, None, "nngp")
        np.testing.assert_allclose(found, factor * covariance, rtol=1e-5)
    np.testing.assert_allclose(serial([])[2](x, None, "nngp"), covariance, rtol=1e-5)


def test_neural_tangents_has_convolutions_and_slopes_as_described():
    conv = Affine(1, 1.5, 0.2, "ntk", Windows((3, 4), (1, 1), "VALID"))
    found = serial([conv, Flatten()])[2](X, None, "nngp")
    rows = X.reshape(2, -1)
    covariance = 2.25 * rows @ rows.T / 24 + 0.04
    np.testing.assert_allclose(found, covariance, rtol=1e-5)
    rectified = serial([conv, Relu(-0.3, 1.7), Flatten()])[2](X, None, "nngp")
    np.testing.assert_allclose(np.diag(rectified), 1.49 * np.diag(covariance), rtol=1e-5)
