"""neural-tangents imports quietly, leaves jax unchanged, and computes the right numbers."""

import runpy
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from lsa_jax import _neural_tangents
from lsa_jax._neural_tangents import (
    NtkImplementation,
    batch,
    empirical_ntk_fn,
    linearize,
    predict,
    stax,
)

# One hidden layer: the mean over initialisations equals the infinite-width kernel at any width.
NETWORKS = {
    "relu": stax.serial(stax.Dense(32, 1.3, 0.2), stax.Relu(), stax.Dense(2, 1.1, 0.3)),
    "convolution": stax.serial(
        stax.Conv(32, (3, 3), (2, 2), padding="VALID", W_std=1.3, b_std=0.2),
        stax.Relu(),
        stax.Flatten(),
        stax.Dense(2, 1.1, 0.3),
    ),
    "pooled": stax.serial(
        stax.Conv(32, (3, 3), padding="SAME", W_std=1.3, b_std=0.2),
        stax.Erf(),
        stax.GlobalAvgPool(),
        stax.Dense(2, 1.1, 0.3),
    ),
}
METHODS = [
    NtkImplementation.JACOBIAN_CONTRACTION,
    NtkImplementation.NTK_VECTOR_PRODUCTS,
    NtkImplementation.STRUCTURED_DERIVATIVES,
]


def _inputs(key, name, n=4):
    shape = (n, 3) if name == "relu" else (n, 5, 5, 2)
    return jax.random.normal(jax.random.fold_in(key, n), shape)


def _jacobian(apply, params, x):
    """df/dtheta as [n, c, parameters]."""
    tree = jax.jit(jax.jacobian(apply))(params, x)
    return np.concatenate(
        [np.asarray(leaf, float).reshape(len(x), 2, -1) for leaf in jax.tree.leaves(tree)], -1
    )


IMPORT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "tf2jax"):
            raise AssertionError(f"{name} is being imported")

sys.meta_path.insert(0, Refuse())
import jax.extend.core
import jax.interpreters.ad
modules = (jax, jax.core, jax.extend.core, jax.interpreters.ad)
before = [dict(vars(module)) for module in modules]
import lsa_jax._neural_tangents
after = [{name: vars(module)[name] for name in old} for module, old in zip(modules, before)]
assert before == after
assert not {"Var", "Jaxpr", "Primitive"} & vars(jax.core).keys()
assert "zeros_like_p" not in vars(jax.interpreters.ad) and "jax.util" not in sys.modules
"""


def test_importing_prints_nothing_warns_nothing_and_loads_no_tensorflow():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_only_versions_of_jax_that_were_tested_are_accepted(monkeypatch):
    for version in ("0.10.0", "0.11.2", "0.12.1.dev20260801"):
        _neural_tangents._check_jax_version(version)
    for version in ("0.9.2", "0.13.0", "1.0.0"):
        monkeypatch.setattr(jax, "__version__", version)
        with pytest.raises(
            ImportError, match=f"jax {version} is installed; .*need jax>=0.10,<0.13"
        ):
            runpy.run_path(_neural_tangents.__file__)


@pytest.mark.parametrize("name", ["relu", "pooled"])
def test_infinite_kernels_equal_the_mean_over_finite_networks(key, name):
    init, apply, kernel = NETWORKS[name]
    x = _inputs(key, name)

    def sample(key):
        params = init(key, x.shape)[1]
        outputs = apply(params, x)
        ntk = empirical_ntk_fn(apply, vmap_axes=0)(x, None, params)
        return outputs @ outputs.T / 2, ntk

    samples = jax.jit(jax.vmap(sample))(jax.random.split(key, 3000))
    for get, values in zip(("nngp", "ntk"), samples, strict=True):
        values = np.asarray(values, float)
        error_bar = values.std(0, ddof=1) / np.sqrt(len(values))
        exact = np.asarray(jax.jit(lambda x, get=get: kernel(x, None, get))(x))
        assert np.all(np.abs(values.mean(0) - exact) < 4.5 * error_bar)
        assert error_bar.max() < 0.04 * np.diag(exact).max()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["relu", "convolution"])
def test_empirical_ntk_equals_the_product_of_jacobians(key, name, method):
    init, apply, _ = NETWORKS[name]
    x1, x2 = _inputs(key, name), _inputs(key, name, n=3)
    params = init(key, x1.shape)[1]
    expected = np.einsum(
        "nap,mbp->nmab", _jacobian(apply, params, x1), _jacobian(apply, params, x2)
    )
    for trace_axes, reference in (
        ((), expected),
        ((-1,), np.einsum("nmaa->nm", expected) / 2),
    ):
        ntk = empirical_ntk_fn(apply, trace_axes=trace_axes, vmap_axes=0, implementation=method)
        np.testing.assert_allclose(jax.jit(ntk)(x1, x2, params), reference, rtol=1e-4, atol=1e-4)


def test_a_kernel_in_batches_equals_the_kernel_at_once(key):
    kernel = jax.jit(NETWORKS["convolution"][2], static_argnames="get")
    x1, x2 = _inputs(key, "convolution", n=6), _inputs(key, "convolution", n=4)
    batched = batch(kernel, batch_size=2, device_count=0)
    np.testing.assert_allclose(batched(x1, x2, "ntk"), kernel(x1, x2, "ntk"), rtol=1e-5)
    np.testing.assert_allclose(batched(x1, None, "ntk"), kernel(x1, None, "ntk"), rtol=1e-5)


def test_linearize_is_the_first_order_expansion(key):
    init, apply, _ = NETWORKS["relu"]
    x = _inputs(key, "relu")
    params = init(key, x.shape)[1]
    step = jax.tree.map(lambda a: 0.3 * jnp.cos(jnp.arange(a.size)).reshape(a.shape), params)
    flat = np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(step)])
    expected = np.asarray(apply(params, x), float) + _jacobian(apply, params, x) @ flat
    moved = jax.tree.map(jnp.add, params, step)
    linear = jax.jit(linearize(apply, params))
    np.testing.assert_allclose(linear(moved, x), expected, rtol=1e-4, atol=1e-4)


@pytest.fixture
def regression(key):
    """A kernel, targets, outputs before training, and the kernel of two test examples."""
    kernel = jax.jit(lambda x: NETWORKS["relu"][2](x, None, "ntk"))(_inputs(key, "relu", n=7))
    targets, start = jax.random.normal(key, (5, 2)), jax.random.normal(jax.random.key(1), (7, 2))
    return kernel[:5, :5], targets, start[:5], start[5:], kernel[5:, :5]


def _flow(time, kernel, targets, train, test, kernel_test):
    """Gradient flow on sum (f - y)^2 / 2nc: df/dt = -K (f - y) / nc, by the matrix exponential."""
    kernel, targets, train, test, kernel_test = (
        np.asarray(a, float) for a in (kernel, targets, train, test, kernel_test)
    )
    decay = scipy.linalg.expm(-time * kernel / targets.size)
    moved = np.linalg.solve(kernel, (np.eye(len(kernel)) - decay) @ (targets - train))
    return targets + decay @ (train - targets), test + kernel_test @ moved


@pytest.mark.parametrize("time", [0.5, 20.0])
def test_predictions_solve_the_linear_differential_equation(regression, time):
    kernel, targets, *rest = regression
    expected = _flow(time, *regression)
    predicted = predict.gradient_descent_mse(kernel, targets)(time, *rest)
    for ours, exact in zip(predicted, expected, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-3)


def test_predictions_can_be_traced_with_their_kernel(regression):
    @jax.jit
    def traced(time, kernel, targets, *rest):
        return predict.gradient_descent_mse(kernel, targets)(time, *rest)

    for ours, exact in zip(traced(3.0, *regression), _flow(3.0, *regression), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-3)


def test_a_predictor_made_under_jit_can_be_used_again_outside(regression):
    kernel, targets, *rest = regression
    predictor = predict.gradient_descent_mse(kernel, targets)
    inside = jax.jit(lambda time: predictor(time, *rest))(3.0)
    for traced, eager in zip(inside, predictor(3.0, *rest), strict=True):
        np.testing.assert_allclose(traced, eager, rtol=1e-5, atol=1e-6)


def test_infinite_time_interpolates_the_targets(regression):
    kernel, targets, *rest = regression
    train, test = predict.gradient_descent_mse(kernel, targets)(None, *rest)
    np.testing.assert_allclose(train, targets, atol=1e-4)
    np.testing.assert_allclose(test, _flow(1e7, *regression)[1], rtol=1e-3, atol=1e-3)


def test_the_largest_stable_learning_rate_follows_from_the_largest_eigenvalue(regression):
    kernel = np.asarray(regression[0], float)
    expected = 2 * len(kernel) / np.linalg.eigvalsh(kernel)[-1]
    assert predict.max_learning_rate(regression[0]) == pytest.approx(expected, rel=1e-5)
