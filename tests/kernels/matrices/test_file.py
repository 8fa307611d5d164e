"""A Gram matrix in a file survives its process, and is never mixed with another."""

import errno
import os

import filelock
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError, NumericalError, StorageError
from lsa_jax.kernels import Workers, gram
from lsa_jax.kernels.matrices import file as gram_file

ONE = jax.devices()[:1]


def kernel(x1, x2):
    return jnp.tanh(x1 @ x2.T)


def _points(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)


X1, X2 = _points(22), _points(9, seed=1)
NUM_TILES = 6 * 7 // 2


def compute(path, *pair, **options):
    options = {"tile": 4, "workers": Workers(ONE)} | options
    return gram(options.pop("kernel", kernel), *(pair or (X1,)), path=path, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kernel.npy"


@pytest.mark.parametrize("pair", [(X1,), (X2, X1)], ids=["symmetric", "general"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_file_is_the_matrix_that_numpy_reads_and_is_computed_once(path, pair, dtype):
    matrix = compute(path, *pair, dtype=dtype)
    assert isinstance(matrix, np.memmap) and not matrix.flags.writeable
    np.testing.assert_array_equal(np.load(path), gram(kernel, *pair, tile=4, dtype=dtype))
    np.testing.assert_array_equal(matrix, np.load(path))
    before = path.stat().st_mtime_ns
    compute(path, *pair, dtype=dtype, progress=lambda fraction: pytest.fail("a tile was computed"))
    assert path.stat().st_mtime_ns == before


def test_a_torn_line_of_the_journal_counts_for_nothing(path):
    expected = np.array(compute(path))
    journal = path.with_name("kernel.npy.0.journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    # The beginning of "12 20", which by itself would be a tile, and a block lost with the power.
    lines[lines.index(b"12 20\n")] = b"\0\0\0\0\n"
    journal.write_bytes(b"".join(lines) + b"12 2")
    matrix = np.load(path, mmap_mode="r+")
    matrix[12:16, 20:] = matrix[20:, 12:16] = 7
    del matrix
    fractions = []
    np.testing.assert_array_equal(compute(path, progress=fractions.append), expected)
    assert len(fractions) == 1 and journal.read_bytes().endswith(b"\n12 20\n")


def test_whenever_a_process_is_killed_the_journal_lists_what_is_in_the_file(path, monkeypatch):
    expected, put, listed = gram(kernel, X1, tile=4, workers=Workers(ONE)), gram_file.put, []
    journal = path.with_name("kernel.npy.0.journal")

    def not_yet_listed(matrix, tile, **options):
        assert b"%d %d\n" % tile.place not in journal.read_bytes()
        put(matrix, tile, **options)

    def synced(descriptor):
        lines = journal.read_bytes().splitlines() if journal.exists() else []
        listed[:] = [tuple(map(int, line.split())) for line in lines]
        for place in listed:
            tile = tuple(slice(start, start + 4) for start in place)
            np.testing.assert_array_equal(np.load(path)[tile], expected[tile])

    def stop(fraction):
        if fraction > 0.5:
            raise KeyboardInterrupt

    monkeypatch.setattr(gram_file, "put", not_yet_listed)
    monkeypatch.setattr(os, "fsync", synced)
    with pytest.raises(KeyboardInterrupt):
        compute(path, progress=stop)
    before, fractions = len(listed), []
    np.testing.assert_array_equal(compute(path, progress=fractions.append), expected)
    assert 0 < before == NUM_TILES - len(fractions) and len(listed) == NUM_TILES


def test_processes_share_the_work_and_the_last_one_gets_the_matrix(path):
    counts = []
    for index in range(3):
        fractions = []
        matrix = compute(path, workers=Workers(ONE, index, 3), progress=fractions.append)
        assert (matrix is None) == (index < 2)
        counts.append(len(fractions))
    assert sum(counts) == NUM_TILES and max(counts) - min(counts) <= 1
    np.testing.assert_array_equal(matrix, gram(kernel, X1, tile=4, workers=Workers(ONE)))


@pytest.mark.parametrize("index", [0, 2])
def test_a_second_writer_refuses(path, index):
    with filelock.FileLock(path.with_name(f"kernel.npy.{index}.lock")):
        with pytest.raises(InputError, match="in use by another process"):
            compute(path, workers=Workers(ONE, index, index + 1))
        with pytest.raises(InputError, match="in use by another process"):
            compute(path)
    compute(path)


def _scaled(scale):
    weights = scale * jnp.ones(3)
    return lambda x1, x2: (x1 * weights[None]) @ x2.T


def test_another_matrix_is_refused_in_one_line(path):
    one = _scaled(1.0)

    def call(kernel=one, x1=X1, x2=None, **options):
        return compute(path, x1, x2, kernel=kernel, **options)

    call()
    content = path.read_bytes()
    for names, change in {
        "program": {"kernel": _scaled(2.0)},
        "x1": {"x1": X1 + 1e-3},
        "x1, shape": {"x1": X1[:21]},
        "x1, x2, symmetric, shape": {"x1": X2, "x2": X1},
        "program, x1, dtype": {"dtype": "float64"},
        "program, tile": {"tile": 5},
    }.items():
        with pytest.raises(InputError, match=f"of another {names} ") as caught:
            call(**change)
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == content


def test_files_that_gram_did_not_write_are_left_alone(path):
    np.save(path, np.eye(3))
    replaced = path.with_name("replaced.npy")
    compute(replaced)
    np.save(replaced, np.eye(3))
    for other in (path, path.with_suffix(".bin"), replaced):
        with pytest.raises(InputError):
            compute(other)
    np.testing.assert_array_equal(np.load(path), np.eye(3))
    np.testing.assert_array_equal(np.load(replaced), np.eye(3))


@pytest.mark.parametrize(
    ("name", "size"),
    [("kernel.npy", 0), ("kernel.npy", 60), ("kernel.npy.json", 0), ("kernel.npy.json", 100)],
)
def test_a_file_cut_short_is_named_and_computed_again_once_removed(path, name, size):
    expected = np.array(compute(path))
    os.truncate(path.with_name(name), size)
    with pytest.raises(InputError, match=f"{name}.* damaged.* remove") as caught:
        compute(path)
    assert "\n" not in str(caught.value)
    path.unlink()  # with the record left, or gone too
    if name.endswith("json"):
        path.with_name("kernel.npy.json").unlink()
    np.testing.assert_array_equal(compute(path), expected)


def test_a_disk_that_is_full_is_named_and_leaves_no_part_of_a_matrix(path, monkeypatch):
    def full(descriptor, start, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=rf"{path} cannot be written \(1,936 bytes\): No space"):
        compute(path)
    assert not list(path.parent.glob("*.npy")) + list(path.parent.glob(".*.partial"))
    monkeypatch.undo()
    np.testing.assert_array_equal(compute(path), gram(kernel, X1, tile=4, workers=Workers(ONE)))


def test_a_kernel_that_is_not_finite_leaves_the_tiles_before_it(path):
    x = X1.copy()
    x[-1] = np.inf
    with pytest.raises(NumericalError, match="not finite"):
        compute(path, x)
    # In the first row, those between the tile on the diagonal and the last one.
    assert path.with_name("kernel.npy.0.journal").read_bytes().count(b"\n") == 4
