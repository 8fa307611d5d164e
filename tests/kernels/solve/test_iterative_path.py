"""Iterations for all ridges at once give the exact path, and left-out errors with honest bars."""

import re

import jax
import numpy as np
import pytest

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import (
    eigendecompose,
    leave_one_out,
    leave_one_out_cg,
    regress,
    regress_cg,
    ridge_path_cg,
)
from lsa_jax.kernels.solve import checkpoint, iterative_path, preconditioner

RIDGES = (3e-3, 0.1, 1.0)


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(200, 3)), rng.normal(size=(20, 3))
    rbf = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 2)  # noqa: E731
    targets = np.tanh(x @ rng.normal(size=(3, 2))) + 0.2 * rng.normal(size=(200, 2))
    return rbf(x, x), targets, rbf(test, x)


@pytest.mark.parametrize("rank", [0, 50])
def test_each_ridge_is_the_factorisation_and_all_take_the_passes_of_the_smallest(given, rank):
    fits = ridge_path_cg(*given, RIDGES, rank=rank, tolerance=1e-10)
    for ridge, fit in zip(RIDGES, fits, strict=True):
        expected = regress(*given, ridge=ridge).predictions
        np.testing.assert_allclose(fit.predictions, expected, rtol=1e-6, atol=1e-7)
        assert fit.ridge == ridge and fit.residual <= 1e-9
    alone = regress_cg(*given, ridge=min(RIDGES), rank=rank, tolerance=1e-10)
    # Rounding, which differs with the sums' order, may move the last pass by one.
    assert abs(fits[0].iterations - alone.iterations) <= 1
    np.testing.assert_allclose(fits[0].weights, alone.weights, rtol=1e-6, atol=1e-8)


def test_half_a_matrix_serves_and_a_stopped_call_goes_on_with_the_same_bits(
    given, half_of, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "_SAVE_EVERY", -1.0)
    gram_train, *others = given
    half = half_of(gram_train)
    whole = ridge_path_cg(half, *others, RIDGES, rank=10)
    np.testing.assert_allclose(
        whole[1].predictions, ridge_path_cg(*given, RIDGES, rank=10)[1].predictions, atol=1e-7
    )

    def stop(iterations, residual):
        if iterations == 4:
            raise KeyboardInterrupt

    options = {"rank": 10, "checkpoint": tmp_path / "state.npz"}
    with pytest.raises(KeyboardInterrupt):
        ridge_path_cg(half, *others, RIDGES, **options, progress=stop)
    for again, fit in zip(ridge_path_cg(half, *others, RIDGES, **options), whole, strict=True):
        np.testing.assert_array_equal(again.predictions, fit.predictions)
    with pytest.raises(InputError, match="of another matrix, targets, ridges"):
        ridge_path_cg(half, *others, RIDGES[:2], **options)


def test_stopped_calls_go_on_with_their_rank_where_less_memory_is_free(
    given, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "_SAVE_EVERY", -1.0)
    ranks, key = [20], jax.random.key(0)
    monkeypatch.setattr(preconditioner, "choose_rank", lambda n: ranks[-1])
    calls = {
        "path": lambda **options: ridge_path_cg(*given, RIDGES, **options),
        "left_out": lambda **options: [
            leave_one_out_cg(*given[:2], RIDGES[1:], key=key, **options)
        ],
    }

    def stop(iterations, residual):
        if iterations == 4:
            raise KeyboardInterrupt

    for name, call in calls.items():
        ranks.append(20)
        whole, path = call(), tmp_path / f"{name}.npz"
        with pytest.raises(KeyboardInterrupt):
            call(checkpoint=path, progress=stop)
        ranks.append(15)
        for again, before in zip(call(checkpoint=path), whole, strict=True):
            for part, other in zip(again, before, strict=True):
                np.testing.assert_array_equal(part, other)


def test_left_out_errors_are_exact_where_the_preconditioner_is(given):
    found = leave_one_out_cg(
        *given[:2], RIDGES, key=jax.random.key(0), probes=2, rank=200, tolerance=1e-10
    )
    exact = leave_one_out(eigendecompose(given[0]), given[1], RIDGES)
    np.testing.assert_allclose(found.errors, exact, rtol=1e-5)
    assert (found.standard_errors < 1e-5 * exact).all()


def test_left_out_errors_are_within_their_bars(given):
    """Of 20 draws of the probes: the mean within 4 errors of it, and bars of the right size."""
    kernel, targets = given[0][:120, :120], given[1][:120]
    exact = leave_one_out(eigendecompose(kernel), targets, RIDGES[1:])
    draws = [
        leave_one_out_cg(
            kernel,
            targets,
            RIDGES[1:],
            key=jax.random.key(seed),
            probes=12,
            rank=30,
            tolerance=1e-3,
        )
        for seed in range(20)
    ]
    errors = np.array([draw.errors for draw in draws])
    bars = np.array([draw.standard_errors for draw in draws]).mean(axis=0)
    spread = errors.std(axis=0, ddof=1)
    assert (np.abs(errors.mean(axis=0) - exact) < 4 * spread / np.sqrt(20)).all()
    assert (bars < 0.1 * exact).all()
    assert (bars > spread / 2).all() and (bars < 2 * spread).all()


def test_what_is_not_solved_or_accepted_is_refused(given):
    with pytest.raises(NumericalError, match="200 examples with ridge 1e-07 .* after 2 iter"):
        ridge_path_cg(*given, [1.0, 1e-7], max_iterations=2, rank=5)
    # The first of these is solved by then.
    with pytest.raises(NumericalError, match="200 examples with ridge 1e-07 .* after 2 iter"):
        ridge_path_cg(*given, [1e6, 1e-7], max_iterations=2, rank=5)
    with pytest.raises(InputError, match="no ridges"):
        ridge_path_cg(*given, [])
    with pytest.raises(InputError, match=r"ridges are \(0.1, 0.0\)"):
        leave_one_out_cg(*given[:2], (0.1, 0), key=jax.random.key(0))
    with pytest.raises(NumericalError, match="relative standard error") as refused:
        leave_one_out_cg(*given[:2], [1e-3], key=jax.random.key(0), probes=4)
    # An error falls with the root of the number of probes; a quarter is accepted.
    told = re.search(r"error of (\S+) from .* use about (\d+) probes", str(refused.value))
    np.testing.assert_allclose(int(told[2]), 4 * (float(told[1]) / 0.25) ** 2, rtol=0.1)
    with pytest.raises(InputError, match="probes is 1"):
        leave_one_out_cg(*given[:2], RIDGES, key=jax.random.key(0), probes=1)


def test_the_error_of_a_diagonal_is_that_of_the_mean_of_its_probes():
    # Of 0 and 0.8 the standard error is 0.8 / sqrt(2) / sqrt(2).
    with pytest.raises(NumericalError, match="error of 0.4 from 2 probes"):
        iterative_path._check_diagonal(np.ones(3), np.array([[0.0, 0.8]] * 3), 0.1)
    iterative_path._check_diagonal(np.ones(3), np.array([[0.0, 0.49]] * 3), 0.1)
