"""Duals by series against closed forms, and wrong duals that are refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite.correlations import cosine_of_gap
from lsa_jax.models import (
    ABRelu,
    Abs,
    Dense,
    Elementwise,
    ElementwiseNumerical,
    Elu,
    Erf,
    Gelu,
    LeakyRelu,
    Relu,
    Sigmoid,
    Silu,
    Sin,
    Softplus,
    Tanh,
    network,
)

EXACT = (Relu(), LeakyRelu(0.3), ABRelu(-1, 2), Abs(), Sin(0.7, 1.2, 0.4), Sin(), Erf(), Gelu())
# The largest error of the derivative's dual, at deviations of 1.5 and correlations of 0.99.
NUMERICAL = {Tanh(): 1e-5, Sigmoid(): 1e-11, Silu(): 1e-11, Softplus(): 1e-13, Elu(): 2e-5}


@pytest.mark.parametrize("layer", [*EXACT, *NUMERICAL])
def test_duals_are_integrals_of_the_function(layer):
    error = kernels.check_duals(layer)
    assert error < NUMERICAL.get(layer, 1e-13)
    assert error > NUMERICAL.get(layer, 0.0) / 1e3  # or the stated accuracy is too modest


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


CORRELATIONS = np.array([-1, -1 + 1e-6, -0.9, -0.3, 0, 0.5, 0.99, 1 - 1e-6, 1])


@pytest.mark.parametrize(("phi", "layer"), [(jax.lax.erf, Erf()), (gelu, Gelu()), (jnp.sin, Sin())])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float64", 1e-10)])
def test_series_of_smooth_functions_are_the_closed_form(phi, layer, dtype, tolerance):
    variances = np.array([[0.2, 1.3], [0.0, 1.0]]).T[:, :, None] * np.ones(CORRELATIONS.shape)
    with jax.enable_x64(dtype == "float64"):
        v, w = variances.astype(dtype)
        moments = [jnp.asarray(m) for m in (CORRELATIONS.astype(dtype) * np.sqrt(v * w), v, w)]
        found, expected = (one.duals(*moments) for one in (ElementwiseNumerical(phi), layer))
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == dtype and one.shape == (2, *CORRELATIONS.shape)
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("stds", [(0.8, 0.8), (0.8, 0.8001), (0.3, 1.4)])
def test_gaps_of_nearly_equal_numbers_are_exact(stds):
    step, gaps = ElementwiseNumerical(jnp.sin)._step(), [1e-12, 1e-7, 1e-3, 0.5, 1.5, 2 - 1e-7]
    scales = [step.scale(jnp.float32(std) ** 2) for std in stds]
    found = step.gap(cosine_of_gap(jnp.array(gaps), 0.0), *scales)
    s, t = np.asarray(stds, "float32").astype("float64")
    # E[sin sin'] = exp(-(s^2 + t^2) / 2) sinh(r s t), over the roots of both at r = 1.
    product = np.sinh((1 - np.array(gaps)) * s * t)
    expected = 1 - product / np.sqrt(np.sinh(s**2) * np.sinh(t**2))
    np.testing.assert_allclose(found, expected, rtol=5e-6, atol=1e-11)


WRONG = ((2.0, 1.0), (1.0, 0.5), (-1.0, 1.0), (np.nan, 1.0))


@dataclasses.dataclass(frozen=True)
class Damped(Elementwise):
    """sin(x), with duals times these factors."""

    factors: tuple[float, float] = (1.0, 1.0)

    def phi(self, x):
        return jnp.sin(x)

    def duals(self, covariance, variance1, variance2):
        duals = Sin().duals(covariance, variance1, variance2)
        return tuple(f * d for f, d in zip(self.factors, duals, strict=True))


@pytest.mark.parametrize("get", ["nngp", "ntk"])
@pytest.mark.parametrize("method", ["recursion", "neural_tangents"])
def test_a_users_nonlinearity_is_one_class_with_its_duals(key, get, method):
    x = jax.random.normal(key, (3, 4))
    own, ours = (network([Dense(3, 1.5, 0.3), one, Dense(1)]).kernel for one in (Damped(), Sin()))
    found = jax.jit(lambda x: own(x, None, get, method))(x)
    np.testing.assert_allclose(found, ours(x, None, get), rtol=1e-5, atol=1e-6)


def test_wrong_duals_are_refused_where_a_network_is_made():
    for factors in WRONG:
        with pytest.raises(InputError, match="duals of Damped: E.phi.* accepted: its integral"):
            network([Dense(3), Damped(factors), Dense(1)])
    for function, words in (
        (np.tanh, "raise TracerArrayConversionError.*jnp in place of np"),
        (jnp.sum, "raise TypeError"),
    ):
        with pytest.raises(InputError, match=words):
            network([Dense(3), ElementwiseNumerical(function), Dense(1)])
    with pytest.raises(InputError, match="Damped cannot be hashed.*frozen=True"):
        network([Dense(3), Damped([1.0, 1.0]), Dense(1)])
    with pytest.raises(InputError, match="^nonlinearity is .*ElementwiseNumerical"):
        kernels.check_duals(jnp.tanh)
    with pytest.raises(InputError, match="of Damped: E.phi'.z."):
        kernels.check_duals(Damped(WRONG[1]))


def test_more_terms_are_more_accurate_at_a_kink_and_too_few_are_refused():
    few = ElementwiseNumerical(jax.nn.relu, 8)
    with pytest.raises(InputError, match="or a higher degree"):
        network([Dense(3), few, Dense(1)])
    errors = [kernels.check_duals(dataclasses.replace(few, degree=n), 1.0) for n in (8, 64, 256)]
    assert errors[0] > 5 * errors[1] > 5**2 * errors[2]
    with pytest.raises(InputError, match="degree is 0"):
        ElementwiseNumerical(jnp.tanh, 0)
