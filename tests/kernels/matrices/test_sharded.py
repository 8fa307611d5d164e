"""Packed matrices, and matrices that processes share, equal the whole one.

The processes are threads here, which exchange arrays through a list; tests/launch has true ones.
"""

import contextlib
import threading
from concurrent import futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsa_jax import processes
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import gram, regress_cg
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices import sharded
from lsa_jax.kernels.solve import preconditioner
from lsa_jax.processes import ProcessGroup

SIZE = 3
X, TEST = (np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32) for n in (44, 11))
Y = np.tanh(X[:, :2])


class Threads(ProcessGroup):
    """Threads that take turns as the processes of a command do."""

    def gather(self, tree):
        leaves, structure = jax.tree.flatten(tree)
        BOARD[self.index] = [np.array(leaf) for leaf in leaves]
        BARRIER.wait()
        rows = [np.stack(column) for column in zip(*BOARD, strict=True)]
        BARRIER.wait()
        return jax.tree.unflatten(structure, rows)

    def from_first(self, function):
        value = self.on_first(function)
        BOARD[self.index] = value
        BARRIER.wait()
        found = BOARD[0]
        BARRIER.wait()
        return found

    def add_up(self, array):
        return self.gather(array).sum(axis=0)


BOARD, BARRIER, OWN = [None] * SIZE, threading.Barrier(SIZE, timeout=60), threading.local()


@pytest.fixture
def together(monkeypatch):
    monkeypatch.setattr(processes, "everyone", lambda: getattr(OWN, "group", processes.ALONE))

    def run(work):
        def as_one(index):
            OWN.group = Threads(index, SIZE)
            try:
                return work(OWN.group)
            except threading.BrokenBarrierError:
                return None
            except BaseException:
                BARRIER.abort()
                raise

        BARRIER.reset()
        with futures.ThreadPoolExecutor(SIZE) as pool:
            return [one.result() for one in [pool.submit(as_one, i) for i in range(SIZE)]]

    return run


def rbf(x1, x2):
    return jnp.exp(-jnp.sum((x1[:, None] - x2[None]) ** 2, axis=-1) / 4)


@pytest.mark.parametrize("path", [False, True])
@pytest.mark.parametrize("tile", [5, 20])
def test_a_sharded_matrix_has_the_entries_rows_and_products_of_the_whole(
    together, tile, path, tmp_path
):
    whole, test = gram(rbf, X, tile=tile), gram(rbf, TEST, X, tile=tile)
    vectors = np.random.default_rng(0).normal(size=(44, 2))

    def work(group):
        def at(name):
            return tmp_path / name if path else None

        half = gram(rbf, X, tile=tile, packed=True, sharded=True, path=at("train.npy"))
        rows = gram(rbf, TEST, X, tile=tile, sharded=True, path=at("test.npy"))
        found = half.rows([40, 3, 3]), half.diagonal(), np.asarray(half), half.multiply(vectors)
        return found, rows.multiply(vectors), rows.shape, (half.nbytes, rows.nbytes)

    for (some, diagonal, entries, product), tested, shape, _ in (found := together(work)):
        np.testing.assert_array_equal(entries, whole)
        np.testing.assert_array_equal(some, whole[[40, 3, 3]])
        np.testing.assert_array_equal(diagonal, np.diagonal(whole))
        np.testing.assert_allclose(product, whole.astype(float) @ vectors, rtol=1e-12)
        np.testing.assert_allclose(tested, test.astype(float) @ vectors, rtol=1e-12)
        assert shape == test.shape
    total = sharded.count_tiles(44, tile) * tile**2 * 4, 4 * 11 * 44
    assert tuple(np.sum([sizes for *_, sizes in found], axis=0)) == total
    assert max(sizes[0] for *_, sizes in found) <= total[0] / SIZE + tile**2 * 4
    names = {f"{name}.0{i}of03.npy" for name in ("train", "test") for i in range(SIZE)}
    assert {file.name for file in tmp_path.glob("*.npy")} == (names if path else set())


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 23), st.integers(1, 8), st.integers(1, 3), st.sampled_from([1, 300, 4e6]))
def test_a_packed_matrix_and_rows_are_the_whole_matrix(half_of, n, side, c, widened):
    rng = np.random.default_rng(n)
    whole, vectors = rng.normal(size=(n, n)).astype(np.float32), rng.normal(size=(n, c))
    whole = whole + whole.T
    half, rows = half_of(whole, side), sharded.ShardedRows(whole, n, processes.ALONE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "_WIDENED", widened)
        for matrix in (half, rows):
            product = whole.astype(float) @ vectors
            np.testing.assert_allclose(matrix.multiply(vectors), product, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.asarray(half), whole)
    np.testing.assert_array_equal(half.diagonal(), np.diagonal(whole))
    indices = rng.integers(n, size=7)
    np.testing.assert_array_equal(half.rows(indices), whole[indices])
    assert half.shape == whole.shape and half.dtype == whole.dtype and half.is_finite()
    half.kept[-1, 0, 0] = np.nan
    assert not half.is_finite()


def test_a_file_has_half_the_bytes_and_is_resumed_after_a_kill(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(90, 3))
    whole, path = gram(rbf, x, tile=10), tmp_path / "half.npy"
    added, add = [], gram_file.GramFile.add

    def stop(self, tile):
        if len(added) == 20:
            raise KeyboardInterrupt
        added.append(tile.place)
        add(self, tile)

    monkeypatch.setattr(gram_file.GramFile, "add", stop)
    with pytest.raises(KeyboardInterrupt):
        gram(rbf, x, tile=10, packed=True, path=path)
    monkeypatch.undo()
    fractions = []
    half = gram(rbf, x, tile=10, packed=True, path=path, progress=fractions.append)
    assert len(fractions) == 45 - 20
    np.testing.assert_array_equal(np.asarray(half), whole)
    assert half.nbytes == 45 * 100 * 4 and path.stat().st_size < 0.6 * whole.nbytes
    with pytest.raises(InputError, match="half.npy"):
        gram(rbf, x, tile=10, path=path)


def test_one_solves_for_all_and_the_others_multiply(together, tmp_path, monkeypatch):
    whole, test = gram(rbf, X, tile=10), gram(rbf, TEST, X, tile=10)
    expected = regress_cg(whole, Y, test, ridge=0.01, tolerance=1e-10, rank=5)
    ranks = []
    monkeypatch.setattr(preconditioner, "choose_rank", lambda n: ranks.append(n) or 5)

    def work(group):
        half = gram(rbf, X, tile=10, packed=True, sharded=True)
        rows = gram(rbf, TEST, X, tile=10, sharded=True)
        own = tmp_path / f"{group.index}.npz"
        return regress_cg(half, Y, rows, ridge=0.01, tolerance=1e-10, checkpoint=own)

    for fit in (fits := together(work)):
        np.testing.assert_allclose(fit.predictions, expected.predictions, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(fit.weights, fits[0].weights)
        assert fit.iterations == expected.iterations and fit.residual < 1e-9
    assert ranks == [44] and [file.name for file in tmp_path.iterdir()] == ["0.npz"]


def test_each_goes_on_with_its_own_file_and_one_that_is_lost_is_computed_again(
    together, tmp_path, monkeypatch
):
    def work(group):
        fractions = []
        options = {"tile": 5, "packed": True, "sharded": True, "path": tmp_path / "half.npy"}
        with contextlib.suppress(KeyboardInterrupt):
            gram(rbf, X, progress=fractions.append, **options)
        return len(fractions)

    assert together(work) == [15] * SIZE  # of 45
    kept = {file.name: file.read_bytes() for file in tmp_path.glob("*.npy")}
    assert together(work) == [0] * SIZE
    for file in tmp_path.glob("half.01of03.npy*"):
        file.unlink()
    assert together(work) == [0, 15, 0]
    assert {file.name: file.read_bytes() for file in tmp_path.glob("*.npy")} == kept


def test_a_kernel_that_one_process_finds_not_finite_is_raised_by_all(together):
    x = X.copy()
    x[-1] = np.nan

    def work(group):
        with pytest.raises(NumericalError, match="the kernel is not finite for"):
            gram(rbf, x, tile=10, packed=True, sharded=True)
        return True

    assert together(work) == [True] * SIZE


def test_matrices_that_cannot_be_sharded_are_refused(together):
    refused = [((X,), {}), ((X,), {"packed": True, "tile": 44}), ((X[:2], X), {})]

    def work(group):
        for inputs, options in refused:
            with pytest.raises(InputError, match="sharded is True"):
                gram(rbf, *inputs, sharded=True, **options)
        return True

    assert together(work) == [True] * SIZE
