"""Duals by quadrature against closed forms, and wrong duals that are refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite.quadrature import gauss_hermite
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
NUMERICAL = {Tanh(): 2e-4, Sigmoid(): 1e-9, Silu(): 1e-9, Softplus(): 1e-11, Elu(): 4e-3}


@pytest.mark.parametrize("layer", [*EXACT, *NUMERICAL])
def test_duals_are_integrals_of_the_function(layer):
    error = kernels.check_duals(layer)
    assert error < NUMERICAL.get(layer, 1e-13)
    assert error > NUMERICAL.get(layer, 0.0) / 1e3  # or the stated accuracy is too modest


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


CORRELATIONS = np.array([-1, -1 + 1e-6, -0.9, -0.3, 0, 0.5, 0.99, 1 - 1e-6, 1])


@pytest.mark.parametrize(("phi", "layer"), [(jax.lax.erf, Erf()), (gelu, Gelu()), (jnp.sin, Sin())])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float64", 1e-9)])
@pytest.mark.parametrize("variances", [(1.0, 1.0), (0.2, 1.3), (0.0, 1.0)])
def test_quadrature_of_smooth_functions_is_the_closed_form(phi, layer, dtype, tolerance, variances):
    with jax.enable_x64(dtype == "float64"):
        v, w = (jnp.asarray(variance, dtype) for variance in variances)
        moments = jnp.asarray(CORRELATIONS, dtype) * jnp.sqrt(v * w), v, w
        for found, expected in zip(
            gauss_hermite(phi, *moments), layer.duals(*moments), strict=True
        ):
            assert found.dtype == dtype and found.shape == CORRELATIONS.shape
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("depth", [1, 4, 12])
def test_deep_kernels_by_quadrature_are_those_of_the_closed_form(key, depth, dtype):
    with jax.enable_x64(dtype == "float64"):
        x = jax.random.normal(key, (6, 5), dtype)
        x = jnp.concatenate([x, x[:2] + 1e-2 * x[2:4], -x[:1]])
        ours, known = (
            network([*[Dense(4, 1.4, 0.1), layer] * depth, Dense(1)]).kernel
            for layer in (ElementwiseNumerical(gelu), Gelu())
        )
        for get in ("nngp", "ntk"):
            expected = known(x, None, get)
            size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
            error = np.abs(ours(x, None, get) - expected) / size
            assert error.max() < (3e-5 if dtype == "float32" else 1e-7)


@pytest.mark.parametrize("layer", [Tanh(), Silu()])
def test_kernels_by_quadrature_are_the_mean_of_wide_networks(key, layer):
    x = jax.random.normal(key, (3, 4))
    model = network([Dense(512, 1.5, 0.2), layer, Dense(512, 1.2), layer, Dense(1)])
    for get in ("nngp", "ntk"):
        found = kernels.monte_carlo_kernel(
            key, lambda k: model.init(k, (4,)), model.apply, x, get=get, min_draws=64, max_draws=64
        )
        away = np.abs(found.mean - model.kernel(x, None, get))
        assert (away < 4 * found.error + 0.01 * np.abs(found.mean)).all()


WRONG = {
    "phi, twice": (2.0, 1.0),
    "phi', half": (1.0, 0.5),
    "sign": (-1.0, 1.0),
    "not a number": (np.nan, 1.0),
}


@dataclasses.dataclass(frozen=True)
class Damped(Elementwise):
    """sin(x), with duals times these factors."""

    factors: tuple[float, float] = (1.0, 1.0)

    def phi(self, x):
        return jnp.sin(x)

    def duals(self, covariance, variance1, variance2):
        return tuple(
            f * d
            for f, d in zip(
                self.factors, Sin().duals(covariance, variance1, variance2), strict=True
            )
        )


def test_wrong_duals_are_refused_where_a_network_is_made():
    jax.jit(lambda x: network([Dense(3), Damped(), Dense(1)]).kernel(x))(jnp.ones((2, 3)))
    for factors in WRONG.values():
        with pytest.raises(InputError, match="duals of Damped: E.phi.* accepted: its integral"):
            network([Dense(3), Damped(factors), Dense(1)])
    with pytest.raises(InputError, match="of Damped: E.phi'.z."):
        kernels.check_duals(Damped(WRONG["phi', half"]))


def test_too_few_nodes_for_a_kink_are_warned_of():
    few = ElementwiseNumerical(jax.nn.relu)
    with pytest.warns(UserWarning, match="higher degree"):
        network([Dense(3), few, Dense(1)])
    errors = [kernels.check_duals(dataclasses.replace(few, degree=n), 1.0) for n in (64, 256, 1024)]
    assert errors[0] > 1.3 * errors[1] > 1.3**2 * errors[2]
    with pytest.raises(InputError, match="degree is 0"):
        ElementwiseNumerical(jnp.tanh, 0)
    with pytest.raises(InputError, match="function is 'tanh'"):
        ElementwiseNumerical("tanh")
