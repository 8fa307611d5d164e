"""Conjugate gradients end where the factorisation does, and say when they do not."""

import numpy as np
import pytest

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import regress, regress_cg
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.solve import checkpoint, preconditioner


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(300, 3)), rng.normal(size=(20, 3))
    rbf = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 2)  # noqa: E731
    targets = np.tanh(x @ rng.normal(size=(3, 4)))
    targets[:, 3] = 1.0  # a class that all examples are of
    return rbf(x, x).astype(np.float32), targets, rbf(test, x).astype(np.float32)


@pytest.mark.parametrize("rank", [0, 60])
@pytest.mark.parametrize("ridge", [0.03, 1.0])
def test_predictions_are_those_of_the_factorisation(given, ridge, rank):
    fit = regress_cg(*given, ridge=ridge, rank=rank, tolerance=1e-10)
    expected = regress(*given, ridge=ridge).predictions
    np.testing.assert_allclose(fit.predictions, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(fit.predictions[:, 3], 1.0)
    assert fit.residual <= 1e-9


def test_iterations_are_passes_over_the_matrix_from_the_first_on(given):
    done = []
    fit = regress_cg(*given, ridge=0.1, progress=lambda *state: done.append(state))
    assert [iterations for iterations, _ in done] == list(range(fit.iterations + 1))
    # Before the first the residual is the target, and it ends within the tolerance.
    assert done[0][1] == pytest.approx(1.0) and done[-1][1] <= 1e-8
    with pytest.raises(InputError, match="tolerance is 1.0; accepted: above 0, below 1"):
        regress_cg(*given, ridge=0.1, tolerance=1.0)


def test_the_preconditioner_saves_iterations(given):
    without, with_it = (regress_cg(*given, ridge=0.01, rank=r).iterations for r in (0, 100))
    assert with_it < without / 4


@pytest.mark.parametrize("block", [256, 7])
def test_the_partial_factorisation_is_the_kernels_part(given, monkeypatch, block):
    monkeypatch.setattr(preconditioner, "_BLOCK", block)
    gram_train = given[0]
    rows, left = preconditioner.partial_cholesky(gram_train, 40)
    rest = gram_train - rows.T @ rows
    np.testing.assert_allclose(np.diagonal(rest), left, atol=1e-5)
    # What is left over is a kernel again, and small.
    assert np.linalg.eigvalsh(rest)[0] > -1e-4 and np.trace(rest) < 0.2 * np.trace(gram_train)


def test_the_rank_is_a_twentieth_of_the_examples_or_what_a_quarter_of_the_memory_holds(monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: 1.6e10)
    chosen = [preconditioner.choose_rank(n) for n in (50, 1000, 10_000, 100_000)]
    # Of 100,000 examples 4e9 bytes hold the factor, and what it is multiplied with, to rank 2,500.
    assert chosen == [50, 100, 500, 2500]


def test_a_matrix_in_a_file_need_not_be_in_memory(given, tmp_path):
    np.save(tmp_path / "train.npy", given[0])
    mapped = np.load(tmp_path / "train.npy", mmap_mode="r")
    fit = regress_cg(mapped, *given[1:], ridge=0.1)
    np.testing.assert_array_equal(fit.predictions, regress_cg(*given, ridge=0.1).predictions)


def test_a_packed_matrix_is_solved_as_the_whole_one(given, half_of):
    gram_train, targets, gram_test = given
    fit = regress_cg(half_of(gram_train), targets, gram_test, ridge=0.03, tolerance=1e-10)
    expected = regress(*given, ridge=0.03).predictions
    np.testing.assert_allclose(fit.predictions, expected, rtol=1e-6, atol=1e-7)


def test_a_call_that_was_stopped_goes_on_with_the_same_bits(given, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SAVE_EVERY", -1.0)
    options = {"ridge": 0.01, "rank": 10}
    whole = regress_cg(*given, **options)
    path, seen = tmp_path / "state.npz", []

    def stop(iterations, residual):
        if iterations == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regress_cg(*given, **options, checkpoint=path, progress=stop)
    again = regress_cg(*given, **options, checkpoint=path, progress=lambda *done: seen.append(done))
    assert seen[0][0] == 4 and seen[-1][1] <= 1e-8
    np.testing.assert_array_equal(again.predictions, whole.predictions)
    with pytest.raises(InputError, match="of another matrix, targets, ridge or rank"):
        regress_cg(*given, ridge=0.02, rank=10, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="state.npz is damaged; remove it"):
        regress_cg(*given, **options, checkpoint=path)


def test_a_stopped_call_goes_on_with_its_rank_where_less_memory_is_free(
    given, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "_SAVE_EVERY", -1.0)
    free, path = [20.0], tmp_path / "state.npz"
    monkeypatch.setattr(preconditioner, "choose_rank", lambda n: int(free[0]))
    whole = regress_cg(*given, ridge=0.01)

    def stop(iterations, residual):
        if iterations == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regress_cg(*given, ridge=0.01, checkpoint=path, progress=stop)
    free[0] = 15.0
    assert regress_cg(*given, ridge=0.01, rank=15).iterations != whole.iterations
    again = regress_cg(*given, ridge=0.01, checkpoint=path)
    np.testing.assert_array_equal(again.predictions, whole.predictions)
    assert again.iterations == whole.iterations
    for options in ({"rank": 15}, {"factor": tmp_path / "factor.npy"}):
        with pytest.raises(InputError, match="of another matrix, targets, ridge or rank"):
            regress_cg(*given, ridge=0.01, checkpoint=path, **options)


def test_a_checkpoint_behind_a_whole_factor_is_not_gone_on_with_behind_a_rank(given, tmp_path):
    path, n = tmp_path / "state.npz", len(given[0])
    regress_cg(*given, ridge=0.1, factor=tmp_path / "factor.npy", checkpoint=path)
    for rank in (None, n):
        with pytest.raises(InputError, match="of another matrix"):
            regress_cg(*given, ridge=0.1, rank=rank, checkpoint=path)


def test_equal_examples_are_solved_with_a_ridge(given):
    gram_train, targets, gram_test = given
    twice = [*range(300), *range(10)]
    doubled = gram_train[np.ix_(twice, twice)], targets[twice], gram_test[:, twice]
    fit = regress_cg(*doubled, ridge=1e-2)
    np.testing.assert_allclose(
        fit.predictions, regress(*doubled, ridge=1e-2).predictions, atol=1e-5
    )


def test_one_example_predicts_itself():
    fit = regress_cg(np.eye(1), np.array([[3.0]]), np.ones((2, 1)), ridge=0.1)
    np.testing.assert_array_equal(fit.predictions, [[3.0], [3.0]])


@pytest.mark.usefixtures("unchecked")
def test_whole_numbers_are_solved_like_others():
    factors = np.random.default_rng(0).integers(-3, 4, size=(20, 30))
    kernel, targets = factors @ factors.T, factors[:, :2].astype(float)
    fit = regress_cg(kernel, targets, kernel, ridge=0.1)
    expected = regress(kernel, targets, kernel, ridge=0.1).predictions
    np.testing.assert_allclose(fit.predictions, expected, rtol=1e-6, atol=1e-6)


def test_iterations_that_would_not_help_are_not_asked_for():
    x = np.linspace(0, 1, 300)
    kernel = np.exp(-50 * (x[:, None] - x) ** 2)
    targets = np.random.default_rng(0).normal(size=(300, 1))
    with pytest.raises(NumericalError, match="rounding allows no less; use a larger ridge or tol"):
        regress_cg(kernel, targets, kernel, ridge=1e-11)


def test_what_is_not_solved_is_refused_with_the_numbers(given):
    gram_train, targets, gram_test = given
    for most in (1, 3):
        with pytest.raises(NumericalError, match=f"after {most} iterations, above .* max_iterat"):
            regress_cg(*given, ridge=1e-6, max_iterations=most)
    indefinite = gram_train - 0.5 * np.eye(300)
    with pytest.raises(NumericalError, match="not positive definite: .* direction of curvature -"):
        regress_cg(indefinite, targets, gram_test, ridge=0.0, rank=0)
    with pytest.raises(InputError, match="tolerance is 0; accepted: above 0"):
        regress_cg(*given, ridge=1.0, tolerance=0)
    with pytest.raises(InputError, match="rank is -1; accepted: 0 or more"):
        regress_cg(*given, ridge=1.0, rank=-1)
    with pytest.raises(InputError, match="max_iterations is 0"):
        regress_cg(*given, ridge=1.0, max_iterations=0)
    with pytest.raises(InputError, match="0 targets"):
        regress_cg(np.zeros((0, 0)), np.zeros((0, 2)), np.zeros((3, 0)), ridge=1)
