"""Calls that exceed the memory are refused before work, with the bytes that their page states."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import costs, kernels, models
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices import memory

# Examples, test examples and targets; prime to each other, so that no factor stands for another.
N, M, C = 40, 27, 11
RNG = np.random.default_rng(0)
FACTORS = RNG.normal(size=(N + M, N + M))
MATRIX = FACTORS @ FACTORS.T
TRAIN, TEST, PRIOR = MATRIX[:N, :N], MATRIX[N:, :N], MATRIX[N:, N:]
Y = RNG.normal(size=(N, C))
X = RNG.normal(size=(N, 6, 6, 2)).astype(np.float32)
THREE, KEY, RIDGES = (TRAIN, Y, TEST), jax.random.key(0), [10.0, 20.0, 30.0]
SPECTRUM = kernels.eigendecompose(TRAIN)
MODEL = models.network([models.Conv(4), models.Relu(), models.Flatten(), models.Dense(3)])


def dot(a, b):
    return a @ b.T


# Solvers: a call, and the bytes that its docstring states.
STATED = {
    "posterior": (
        lambda: kernels.posterior(*THREE, np.diagonal(PRIOR), ridge=0.1),
        8 * N * (N + M),
    ),
    "posterior, all covariances": (
        lambda: kernels.posterior(*THREE, PRIOR, ridge=0.1),
        8 * (N * (N + M) + M * M),
    ),
    "regress": (lambda: kernels.regress(*THREE, ridge=0.1), 8 * N**2),
    "regress_cg": (
        lambda: kernels.regress_cg(*THREE, ridge=0.1, rank=7),
        8 * (N * (2 * 7 + 6 * C) + 7**2),
    ),
    "ridge_path_cg": (
        lambda: kernels.ridge_path_cg(*THREE, RIDGES, rank=7),
        8 * (N * (2 * 7 + 6 * C * 3) + 3 * 7**2),
    ),
    "leave_one_out_cg": (
        lambda: kernels.leave_one_out_cg(TRAIN, Y, RIDGES, key=KEY, probes=5, rank=7),
        8 * (N * (2 * 7 + 6 * (C + 1 + 5) * 3) + 3 * 7**2),
    ),
    "eigendecompose": (lambda: kernels.eigendecompose(TRAIN), 32 * N**2),
    "leave_one_out_ridge": (lambda: kernels.leave_one_out_ridge(TRAIN, Y, RIDGES), 32 * N**2),
    "ridge_path": (lambda: next(kernels.ridge_path(SPECTRUM, Y, TEST, RIDGES)), 8 * N * M),
    "leave_one_out": (lambda: kernels.leave_one_out(SPECTRUM, Y, RIDGES), 8 * N**2),
    "gradient_flow": (
        lambda: kernels.gradient_flow(SPECTRUM, Y, TEST, [1.0, 2.0, 3.0]),
        8 * (M * N + 2 * 3 * (N + M) * C),
    ),
    "regress_nystrom": (
        lambda: kernels.regress_nystrom(
            dot, TRAIN[:9], kernels.Stream.of(TRAIN, Y, 13), TEST, ridge=0.1
        ),
        8 * (4 * 9**2 + 2 * 9 * 13),
    ),
}


@functools.cache
def params():
    return MODEL.init(jax.random.key(0), X.shape[1:])


def of_network(function, **options):
    return lambda: function(MODEL.apply, params(), X, **options)


# Other calls, with bytes that are too few.
REFUSED = {
    "InfiniteKernel": (lambda: MODEL.kernel(X), 6_000),
    "InfiniteKernel by neural-tangents": (
        lambda: MODEL.kernel(X, method="neural_tangents"),
        40.0**2 * 36 * 4,
    ),
    "average_gradient_outer_product": (
        lambda: kernels.average_gradient_outer_product(
            lambda a, b: dot(a.reshape(len(a), -1), b.reshape(len(b), -1)), Y, X
        ),
        10_000,
    ),
    "empirical_ntk": (of_network(kernels.empirical_ntk), 80_000),
    **{
        f"empirical_ntk by {method}": (
            of_network(kernels.empirical_ntk, method=method, full=True),
            80_000,
        )
        for method in ("jacobian", "vector_products", "layerwise")
    },
    "ensemble_mean": (lambda: kernels.ensemble_mean(MODEL.ntk, X, Y, X), 3 * N**2),
    "finite_kernel": (lambda: kernels.finite_kernel(MODEL.apply, params())(X), 80_000),
    "gram": (lambda: kernels.gram(MODEL.kernel, X), 3 * N**2),
    "last_layer_inputs": (of_network(kernels.last_layer_inputs), 4 * N * 100),
    "layer_gradients": (of_network(kernels.layer_gradients), 4 * 144**2),
    "layer_inputs": (of_network(kernels.layer_inputs), 4 * N * 100),
    "linearize_on": (of_network(kernels.linearize_on), 4 * N * 300),
    "monte_carlo_kernel": (
        lambda: kernels.monte_carlo_kernel(
            KEY, lambda key: MODEL.init(key, X.shape[1:]), MODEL.apply, X
        ),
        4 * 16 * N**2,
    ),
    "recursive_feature_machine": (
        lambda: kernels.recursive_feature_machine(MODEL.kernel.transformed, X, Y, key=KEY, size=18),
        3 * N**2,
    ),
}

# These return a function of a batch, or numbers of sizes.
SMALL = {"check_duals", "choose_solver", "infinite_of", "leaf_names", "linearize"}
SMALL |= {"kernel_alignment_risk", "modes", "predict_learning_curve", "taylor_expand"}


def test_every_public_call_is_covered():
    functions = {name for name in kernels.__all__ if name[0].islower()}
    assert functions <= {name.split(",")[0].split()[0] for name in (*STATED, *REFUSED, *SMALL)}


@pytest.mark.parametrize("name", STATED)
def test_a_solver_needs_the_bytes_that_it_states(name, monkeypatch):
    call, stated = STATED[name]
    monkeypatch.setattr(memory, "host_available", lambda: 0.999 * stated)
    with pytest.raises(InputError) as refused:
        call()
    found = float(re.search(r"takes (\S+) bytes of memory", str(refused.value)).group(1))
    np.testing.assert_allclose(found, stated, rtol=5e-3)
    monkeypatch.setattr(memory, "host_available", lambda: 1.001 * stated)
    call()


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_do_not_fit_are_refused_with_the_bytes(name, monkeypatch):
    call, left = REFUSED[name]
    monkeypatch.setattr(memory, "host_available", lambda: float(left))
    with pytest.raises(InputError, match=r"[\d.e+]+ bytes.*available; accepted: ") as refused:
        call()
    assert "\n" not in str(refused.value)


def test_arrays_that_live_together_are_counted_as_they_come_and_go():
    x = jax.ShapeDtypeStruct((50, 20), np.float32)

    def chain(x):
        wide = jnp.sin(x) @ jnp.ones((20, 300), np.float32)
        return jnp.sum(wide, axis=1)

    # x, which the caller holds until sin is done; sin(x), the ones and their product.
    assert costs.bytes_one_by_one(chain, x) == 4 * (50 * 20 + 20 * 300 + 50 * 300)
    inner = jax.jit(lambda x: jnp.sum(x[:, None] * x[None], axis=2))
    held = 4 * (50 * 50 * 20 + 50 * 50)
    assert costs.bytes_one_by_one(lambda x: inner(x), x) == held
