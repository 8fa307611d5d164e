"""What can exceed the memory is refused before it does, with the bytes and what to do instead."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend, kernels, models
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices import memory

N, CLASSES = 40, 3
X = np.random.default_rng(0).normal(size=(N, 6, 6, 2)).astype(np.float32)
Y = np.eye(CLASSES)[np.arange(N) % CLASSES]
KERNEL = np.exp(-np.abs(np.arange(N)[:, None] - np.arange(N)) / 2)
MODEL = models.network(
    [models.Conv(4), models.Relu(), models.Flatten(), models.Dense(CLASSES)],
)
SPECTRUM = kernels.eigendecompose(KERNEL)


@functools.cache
def params():
    return MODEL.init(jax.random.key(0), X.shape[1:])


def rbf(x1, x2):
    gaps = (x1[:, None] - x2[None]).reshape(len(x1), len(x2), -1)
    return jnp.exp(-jnp.sum(gaps**2, axis=-1) / 4)


def of_network(function, **options):
    return lambda: function(MODEL.apply, params(), X, **options)


# Every public call, with the bytes that it is left; None has nothing that grows with what it is
# given: it returns a function of a batch, or a record.
CALLS = {
    "Choice": None,
    "FeatureMachine": None,
    "Flow": None,
    "Hosts": None,
    "InfiniteKernel": (lambda: MODEL.kernel(X), 6_000),
    "IterativeRegression": None,
    "LayerGradients": None,
    "LeaveOneOut": None,
    "MonteCarlo": None,
    "NystromRegression": None,
    "PackedMatrix": None,
    "Plan": None,
    "Posterior": None,
    "Regression": None,
    "ShardedRows": None,
    "Spectrum": None,
    "Stream": None,
    "Workers": None,
    "average_gradient_outer_product": (
        lambda: kernels.average_gradient_outer_product(rbf, Y, X),
        10_000,
    ),
    "choose_solver": None,
    "eigendecompose": (lambda: kernels.eigendecompose(KERNEL), 30 * N**2),
    "empirical_ntk": (of_network(kernels.empirical_ntk), 80_000),
    "ensemble_mean": (lambda: kernels.ensemble_mean(MODEL.ntk, X, Y, X), 3 * N**2),
    "finite_kernel": (lambda: kernels.finite_kernel(MODEL.apply, params())(X), 80_000),
    "fitted_weights": (lambda: kernels.fitted_weights(KERNEL, Y, ridge=0.1), 7 * N**2),
    "gradient_flow": (lambda: kernels.gradient_flow(SPECTRUM, Y, KERNEL, [1.0]), 8 * N**2),
    "gram": (lambda: kernels.gram(MODEL.kernel, X), 3 * N**2),
    "infinite_kernel": None,
    "infinite_of": None,
    "last_layer_inputs": (of_network(kernels.last_layer_inputs), 4 * N * 100),
    "layer_gradients": (of_network(kernels.layer_gradients), 4 * 144**2),
    "leaf_names": None,
    "leave_one_out": (lambda: kernels.leave_one_out(SPECTRUM, Y, [0.1]), 7 * N**2),
    "leave_one_out_cg": (
        lambda: kernels.leave_one_out_cg(KERNEL, Y, [0.1], key=jax.random.key(0), rank=4),
        8 * N * 80,
    ),
    "leave_one_out_ridge": (lambda: kernels.leave_one_out_ridge(KERNEL, Y, [0.1, 1]), 30 * N**2),
    "linearize": None,
    "linearize_on": (of_network(kernels.linearize_on), 4 * N * 300),
    "monte_carlo_kernel": (
        lambda: kernels.monte_carlo_kernel(
            jax.random.key(0), lambda key: MODEL.init(key, X.shape[1:]), MODEL.apply, X
        ),
        4 * 16 * N**2,
    ),
    "plan": None,
    "posterior": (
        lambda: kernels.posterior(KERNEL, Y, KERNEL, np.diagonal(KERNEL), ridge=0.1),
        15 * N**2,
    ),
    "recursive_feature_machine": (
        lambda: kernels.recursive_feature_machine(
            MODEL.kernel.transformed, X, Y, key=jax.random.key(0), size=18
        ),
        3 * N**2,
    ),
    "regress": (lambda: kernels.regress(KERNEL, Y, KERNEL, ridge=0.1), 7 * N**2),
    "regress_cg": (lambda: kernels.regress_cg(KERNEL, Y, KERNEL, ridge=0.1, rank=N), 15 * N**2),
    "regress_nystrom": (
        lambda: kernels.regress_nystrom(
            rbf, X, kernels.Stream(lambda number: (X, Y), 2), X, ridge=0.1
        ),
        40 * N**2,
    ),
    "ridge_path": (lambda: list(kernels.ridge_path(SPECTRUM, Y, KERNEL, [0.1])), 7 * N**2),
    "ridge_path_cg": (lambda: kernels.ridge_path_cg(KERNEL, Y, KERNEL, [0.1, 1]), 8 * N * 40),
    "select_ridge": (
        lambda: kernels.select_ridge(jax.random.key(0), KERNEL, Y, [0.1, 1.0]),
        8 * N**2,
    ),
    "taylor_expand": None,
}


def test_every_public_call_is_looked_at():
    assert set(CALLS) == set(kernels.__all__)


@pytest.mark.parametrize("name", [name for name, case in CALLS.items() if case])
def test_what_does_not_fit_is_refused_with_the_bytes(name, monkeypatch):
    call, left = CALLS[name]
    monkeypatch.setattr(memory, "host_available", lambda: float(left))
    with pytest.raises(InputError, match=r"[\d.e+]+ bytes.*available; accepted: ") as refused:
        call()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("method", ["jacobian", "vector_products", "layerwise"])
@pytest.mark.parametrize("full", [False, True])
def test_a_finite_kernel_at_once_is_refused_by_every_method(method, full, monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: 80_000.0)
    with pytest.raises(InputError, match=r"the kernel of all examples of \(40, 6, 6, 2\) at once"):
        kernels.empirical_ntk(MODEL.apply, params(), X, method=method, full=full)


def test_what_is_refused_at_once_goes_in_tiles(monkeypatch):
    ntk = kernels.finite_kernel(MODEL.apply, params(), method="layerwise")
    expected = ntk(X)
    monkeypatch.setattr(memory, "host_available", lambda: 150_000.0)
    with pytest.raises(InputError, match="`kernels.gram`, which goes by tiles"):
        ntk(X)
    np.testing.assert_allclose(kernels.gram(ntk, X), expected, rtol=1e-4, atol=1e-6)


def test_what_is_compiled_is_left_to_who_compiles_it(monkeypatch):
    expected = kernels.empirical_ntk(MODEL.apply, params(), X)
    monkeypatch.setattr(memory, "host_available", lambda: 1000.0)
    found = jax.jit(functools.partial(kernels.empirical_ntk, MODEL.apply))(params(), X)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_an_infinite_kernel_of_another_library_is_refused_too(monkeypatch):
    pytest.importorskip("neural_tangents")
    monkeypatch.setattr(memory, "host_available", lambda: 40.0**2 * 36 * 4)
    with pytest.raises(InputError, match="the kernel of all examples of .* `kernels.gram`"):
        MODEL.kernel(X, method="neural_tangents")


def test_arrays_that_live_together_are_counted_as_they_come_and_go():
    x = jax.ShapeDtypeStruct((50, 20), np.float32)

    def chain(x):
        wide = jnp.sin(x) @ jnp.ones((20, 300), np.float32)
        return jnp.sum(wide, axis=1)

    # x, which the caller holds until sin is done; sin(x), the ones and their product.
    assert backend.bytes_one_by_one(chain, x) == 4 * (50 * 20 + 20 * 300 + 50 * 300)
    inner = jax.jit(lambda x: jnp.sum(x[:, None] * x[None], axis=2))
    held = 4 * (50 * 50 * 20 + 50 * 50)
    assert backend.bytes_one_by_one(lambda x: inner(x), x) == held
