"""Conjugate gradients against factorisations: one ridge or many, left-out errors, resumption."""

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
from lsa_jax.kernels.solve import checkpoint, preconditioner

RIDGES = (0.01, 0.1, 1.0)


@pytest.fixture(scope="module")
def given(drawn):
    gram_train, targets, gram_test, _ = drawn(200, m=20)
    targets[:, 2] = 1.0  # a class that all examples are of
    return gram_train.astype(np.float32), targets, gram_test.astype(np.float32)


@pytest.mark.parametrize("rank", [0, 50])
@pytest.mark.parametrize("packed", [False, True])
def test_each_ridge_is_the_factorisation_and_all_take_the_passes_of_the_smallest(
    given, half_of, rank, packed
):
    matrix = half_of(given[0]) if packed else given[0]
    done, options = [], {"rank": rank, "tolerance": 1e-10}
    progress = lambda *state: done.append(state)  # noqa: E731
    fits = ridge_path_cg(matrix, *given[1:], RIDGES, **options, progress=progress)
    for ridge, fit in zip(RIDGES, fits, strict=True):
        expected = regress(*given, ridge=ridge).predictions
        np.testing.assert_allclose(fit.predictions, expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(fit.predictions[:, 2], 1.0)
        assert fit.ridge == ridge and fit.residual <= 1e-9
    # Before the first iteration the residual is the target, and it ends within the tolerance.
    assert [number for number, _ in done] == list(range(fits[0].iterations + 1))
    assert done[0][1] == pytest.approx(1.0) and done[-1][1] <= 1e-10
    alone = regress_cg(matrix, *given[1:], ridge=min(RIDGES), **options)
    # Rounding, which differs with the sums' order, may move the last pass by one.
    assert abs(fits[0].iterations - alone.iterations) <= 1
    np.testing.assert_allclose(fits[0].weights, alone.weights, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("power", [-700, 700])
def test_predictions_have_the_size_of_the_targets_whatever_it_is(given, power):
    of_one, of_two = (
        regress_cg(given[0], size * given[1], given[2], ridge=0.1).predictions
        for size in (1.0, 2.0**power)
    )
    np.testing.assert_array_equal(of_two, 2.0**power * of_one)


def test_the_preconditioner_saves_iterations(given):
    without, with_it = (regress_cg(*given, ridge=0.01, rank=r).iterations for r in (0, 100))
    assert with_it < without / 4


@pytest.mark.parametrize("block", [256, 7])
def test_the_partial_factorisation_is_the_kernels_part(given, monkeypatch, block):
    monkeypatch.setattr(preconditioner, "_BLOCK", block)
    gram_train = given[0]
    rows, left = preconditioner.partial_cholesky(gram_train, 60)
    rest = gram_train - rows.T @ rows
    np.testing.assert_allclose(np.diagonal(rest), left, atol=2e-4)
    # The rest is a kernel again, and small.
    assert np.linalg.eigvalsh(rest)[0] > -1e-4 and np.trace(rest) < 0.2 * np.trace(gram_train)
    # The inverse, for two ridges at once, and its diagonals.
    rests, vectors = (0.3, 0.7), np.random.default_rng(0).normal(size=(200, 4))
    found = preconditioner.Preconditioner(rows, rests)
    inverses = [np.linalg.inv(rows.T @ rows + d * np.eye(200)) for d in rests]
    expected = np.hstack([inverses[0] @ vectors[:, :2], inverses[1] @ vectors[:, 2:]])
    np.testing.assert_allclose(found(vectors), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.diagonals(), [np.diagonal(i) for i in inverses], rtol=1e-9)


def _calls(given):
    key = jax.random.key(0)
    return {
        "one": lambda **options: [regress_cg(*given, ridge=0.01, **options)],
        "path": lambda **options: ridge_path_cg(*given, RIDGES, **options),
        "left_out": lambda **options: [leave_one_out_cg(*given[:2], RIDGES, key=key, **options)],
    }


@pytest.mark.parametrize("name", ["one", "path", "left_out"])
def test_a_stopped_call_resumes_with_the_same_bits_and_rank(given, tmp_path, monkeypatch, name):
    monkeypatch.setattr(checkpoint, "_SAVE_EVERY", -1.0)
    ranks, path, seen = [20], tmp_path / "state.npz", []
    monkeypatch.setattr(preconditioner, "choose_rank", lambda n: ranks[-1])
    call = _calls(given)[name]

    def stop(iterations, residual):
        if iterations == 4:
            raise KeyboardInterrupt

    whole = call()
    with pytest.raises(KeyboardInterrupt):
        call(checkpoint=path, progress=stop)
    ranks.append(15)  # less memory is free
    again = call(checkpoint=path, progress=lambda *done: seen.append(done))
    assert seen[0][0] == 4
    for fit, before in zip(again, whole, strict=True):
        for part, other in zip(fit, before, strict=True):
            np.testing.assert_array_equal(part, other)
    changed = given[0], given[1] + np.eye(200, 3), given[2]
    for other in (_calls(changed)[name], lambda **options: call(rank=15, **options)):
        with pytest.raises(InputError, match="of another matrix"):
            other(checkpoint=path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="state.npz is damaged"):
        call(checkpoint=path)


def test_left_out_errors_are_exact_where_the_preconditioner_is(given):
    options = {"key": jax.random.key(0), "probes": 2, "rank": 200, "tolerance": 1e-10}
    matrix = given[0].astype(float)
    found = leave_one_out_cg(matrix, given[1], RIDGES, **options)
    exact = leave_one_out(eigendecompose(matrix), given[1], RIDGES)
    np.testing.assert_allclose(found.errors, exact, rtol=1e-5)
    assert (found.standard_errors < 1e-5 * exact).all()
    for size in (1e-300, 1e200):  # of the kernel, on which the errors do not depend
        scaled = leave_one_out_cg(size * matrix, given[1], RIDGES, **options)
        np.testing.assert_allclose(scaled.errors, exact, rtol=1e-5)


def test_left_out_errors_are_within_their_bars(given):
    """Of 20 draws of the probes: the mean within 4 errors of it, and bars of the right size."""
    kernel, targets = given[0][:120, :120], given[1][:120]
    exact = leave_one_out(eigendecompose(kernel), targets, RIDGES[1:])
    options = {"probes": 12, "rank": 30, "tolerance": 1e-3}
    draws = [
        leave_one_out_cg(kernel, targets, RIDGES[1:], key=jax.random.key(seed), **options)
        for seed in range(20)
    ]
    errors = np.array([draw.errors for draw in draws])
    bars = np.array([draw.standard_errors for draw in draws]).mean(axis=0)
    spread = errors.std(axis=0, ddof=1)
    assert (np.abs(errors.mean(axis=0) - exact) < 4 * spread / np.sqrt(20)).all()
    assert (bars < 0.1 * exact).all()
    assert (bars > spread / 2).all() and (bars < 2 * spread).all()


@pytest.mark.usefixtures("unchecked")
def test_small_and_equal_examples_and_whole_numbers_are_solved_too(given):
    fit = regress_cg(np.eye(1), np.array([[3.0]]), np.ones((2, 1)), ridge=0.1)
    np.testing.assert_array_equal(fit.predictions, [[3.0], [3.0]])
    twice = [*range(200), *range(10)]
    factors = np.random.default_rng(0).integers(-3, 4, size=(20, 30))
    whole = factors @ factors.T
    for problem in [
        (given[0][np.ix_(twice, twice)], given[1][twice], given[2][:, twice]),
        (whole, factors[:, :2].astype(float), whole),
    ]:
        expected = regress(*problem, ridge=0.1).predictions
        found = regress_cg(*problem, ridge=0.1).predictions
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_systems_that_are_not_solved_are_refused(given):
    gram_train, targets, gram_test = given
    # The first of these ridges is solved by then.
    with pytest.raises(NumericalError, match="200 examples with ridge 1e-07 .* after 2 .*max_iter"):
        ridge_path_cg(*given, [1e6, 1e-7], max_iterations=2, rank=5)
    x = np.linspace(0, 1, 300)
    smooth = np.exp(-50 * (x[:, None] - x) ** 2)
    noise = np.random.default_rng(0).normal(size=(300, 1))
    with pytest.raises(NumericalError, match="rounding allows no less"):
        regress_cg(smooth, noise, smooth, ridge=1e-11)
    with pytest.raises(NumericalError, match="direction of curvature -"):
        regress_cg(gram_train - 0.9 * np.eye(200), targets, gram_test, ridge=0.0, rank=0)
    key = jax.random.key(0)
    with pytest.raises(NumericalError, match="relative standard error"):
        leave_one_out_cg(*given[:2], [1e-3], key=key, probes=4, rank=20)
