"""The mean of an ensemble of wide networks is that of neural-tangents, and of drawn networks."""

import jax
import numpy as np
import pytest

from lsa_jax import kernels, models
from lsa_jax._neural_tangents import stax
from lsa_jax.errors import NumericalError


@pytest.fixture(scope="module")
def given():
    inputs, test_inputs, targets = (
        np.asarray(jax.random.normal(jax.random.key(i), shape))
        for i, shape in enumerate([(9, 6), (4, 6), (9, 2)])
    )
    model = models.network([models.Dense(64), models.Relu(), models.Dense(2)])
    return model, inputs, targets, test_inputs


@pytest.mark.parametrize("get", ["ntk", "nngp"])
@pytest.mark.parametrize("time, ridge", [(20.0, 0.0), (np.inf, 1e-2)])
def test_the_mean_is_that_of_neural_tangents(given, get, time, ridge):
    import neural_tangents as nt

    model, inputs, targets, test_inputs = given
    ours = kernels.ensemble_mean(
        getattr(model, get), inputs, targets, test_inputs, time=time, ridge=ridge
    )
    kernel_fn = stax.serial(stax.Dense(64), stax.Relu(), stax.Dense(2))[2]
    predict = nt.predict.gradient_descent_mse_ensemble(kernel_fn, inputs, targets, diag_reg=ridge)
    theirs = predict(None if np.isinf(time) else time, test_inputs, get)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_last_layers_trained_from_many_starts_have_the_mean_of_the_nngp(given):
    """Least squares on the hidden units of drawn networks, from drawn outputs, to the end."""
    _, inputs, targets, test_inputs = given
    wide = models.network([models.Dense(1024), models.Relu(), models.Dense(2)])
    predictions = []
    for seed in range(10):
        params = wide.init(jax.random.key(seed), (6,))
        f = [np.asarray(wide.apply(params, x), float) for x in (inputs, test_inputs)]
        k, k_test = (
            np.asarray(
                kernels.empirical_ntk(
                    wide.apply,
                    params,
                    x,
                    inputs,
                    selected={"Dense_0": False, "Dense_1": True},
                ),
                float,
            )
            for x in (inputs, test_inputs)
        )
        predictions.append(f[1] + k_test @ np.linalg.solve(k, targets - f[0]))
    error = np.std(predictions, axis=0, ddof=1) / len(predictions) ** 0.5
    ours = kernels.ensemble_mean(wide.nngp, inputs, targets, test_inputs)
    assert np.all(np.abs(np.mean(predictions, axis=0) - ours) < 4 * error + 0.05)


def test_a_kernel_that_cannot_be_inverted_is_refused(given):
    model, inputs, targets, test_inputs = given
    twice = np.concatenate([inputs, inputs])
    with pytest.raises(NumericalError, match="ridge"):
        kernels.ensemble_mean(model.ntk, twice, np.tile(targets, (2, 1)), test_inputs)
