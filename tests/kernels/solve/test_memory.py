"""What a solver is refused for is what its page of the API says that it takes."""

import re

import jax
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices import memory

# Examples, test examples and targets; prime to each other, so that no factor stands for another.
N, M, C = 40, 27, 11


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(N + M, N + M))
    matrix = factors @ factors.T
    return matrix[:N, :N], rng.normal(size=(N, C)), matrix[N:, :N], matrix[N:, N:]


def _calls(given):
    train, targets, test, prior = given
    three, key, ridges = (train, targets, test), jax.random.key(0), [0.1, 1.0, 10.0]
    spectrum = kernels.eigendecompose(train)
    stream, options = kernels.Stream.of(train, targets, 13), {"ridge": 0.1}
    return {
        "posterior": lambda: kernels.posterior(*three, np.diagonal(prior), **options),
        "covariance": lambda: kernels.posterior(*three, prior, **options),
        "regress": lambda: kernels.regress(*three, **options),
        "float32": lambda: kernels.regress(*three, **options, precision="float32"),
        "fitted_weights": lambda: kernels.fitted_weights(train, targets, **options),
        "regress_cg": lambda: kernels.regress_cg(*three, **options, rank=7),
        "ridge_path_cg": lambda: kernels.ridge_path_cg(*three, ridges, rank=7),
        "leave_one_out_cg": lambda: kernels.leave_one_out_cg(
            train, targets, [10.0, 20.0, 30.0], key=key, probes=5, rank=7
        ),
        "eigendecompose": lambda: kernels.eigendecompose(train),
        "ridge_path": lambda: next(kernels.ridge_path(spectrum, targets, test, ridges)),
        "leave_one_out": lambda: kernels.leave_one_out(spectrum, targets, ridges),
        "gradient_flow": lambda: kernels.gradient_flow(spectrum, targets, test, [1.0, 2.0, 3.0]),
        "few_ridges": lambda: kernels.select_ridge(key, *three[:2], ridges, held_out=0.25),
        "many_ridges": lambda: kernels.select_ridge(
            key, *three[:2], np.logspace(-3, 3, 99).tolist(), held_out=0.25
        ),
        "nystrom": lambda: kernels.regress_nystrom(
            lambda a, b, **_: a @ b.T, train[:9], stream, test, **options
        ),
    }


STATED = {
    "posterior": 8 * N * (N + M),
    "covariance": 8 * (N * (N + M) + M * M),
    "regress": 8 * N**2,
    "float32": 4 * N**2,
    "fitted_weights": 8 * N**2,
    "regress_cg": 8 * (N * (2 * 7 + 6 * C) + M * C),
    "ridge_path_cg": 8 * (N * (2 * 7 + 6 * C * 3) + 3 * 7**2),
    "leave_one_out_cg": 8 * (N * (2 * 7 + 6 * (C + 1 + 5) * 3) + 3 * 7**2),
    "eigendecompose": 32 * N**2,
    "ridge_path": 8 * N * M,
    "leave_one_out": 8 * N**2,
    "gradient_flow": 8 * (M * N + 2 * 3 * (N + M) * C),
    # The part that is not held out, of all rows, and its factor or spectrum.
    "few_ridges": 8 * 30 * N + 8 * 30**2,
    "many_ridges": 8 * 30 * N + 32 * 30**2,
    "nystrom": 8 * (4 * 9**2 + 2 * 9 * 13),
}


@pytest.mark.parametrize("name", STATED)
def test_what_does_not_fit_is_refused_with_the_bytes(given, monkeypatch, name):
    call = _calls(given)[name]
    monkeypatch.setattr(memory, "host_available", lambda: 0.999 * STATED[name])
    with pytest.raises(InputError) as refused:
        call()
    told = float(re.search(r"takes (\S+) bytes of memory", str(refused.value)).group(1))
    np.testing.assert_allclose(told, STATED[name], rtol=5e-3)
    monkeypatch.setattr(memory, "host_available", lambda: 1.001 * STATED[name])
    call()
