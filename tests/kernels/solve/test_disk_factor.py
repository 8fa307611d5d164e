"""A factor in a file solves what one in memory does, in pieces, and goes on after a kill."""

import json
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import gram, regress, regress_cg
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.solve import conjugate_gradients, disk_factor
from lsa_jax.processes import ProcessGroup


def _problem():
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(300, 3)), rng.normal(size=(20, 3))
    rbf = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 2)  # noqa: E731
    targets = np.tanh(x @ rng.normal(size=(3, 4)))
    return rbf(x, x).astype(np.float32), targets, rbf(test, x).astype(np.float32)


@pytest.fixture(scope="module")
def given():
    return _problem()


@pytest.fixture
def small_slabs(monkeypatch):
    monkeypatch.setattr(disk_factor, "_SLAB", 48)


@pytest.mark.parametrize("rows", [300, 299, 128, 77])
def test_the_file_holds_the_cholesky_factor(given, tmp_path, small_slabs, rows):
    shift, path = 0.5, tmp_path / "factor.npy"
    disk_factor.make(given[0], shift, path, rows)
    expected = scipy.linalg.cholesky(given[0] + shift * np.eye(300))
    entries, panels = np.load(path), disk_factor.Panels(300, rows)
    for start in panels.starts:
        panel = entries[panels.place(start)].reshape(panels.shape(start))
        np.testing.assert_allclose(panel, expected[start : start + rows, start:], atol=2e-5)
    assert panels.size == len(entries) <= 300 * (300 + rows) / 2


@pytest.mark.parametrize("rows", [300, 77])
def test_substitution_solves_to_float32(given, half_of, tmp_path, small_slabs, rows):
    factor = disk_factor.make(half_of(given[0]), 0.5, tmp_path / "factor.npy", rows)
    # Columns of any size, one of them 0.
    right = given[1] * np.array([1e-40, 1.0, 0.0, 1e20])
    expected = scipy.linalg.solve(given[0] + 0.5 * np.eye(300), right, assume_a="pos")
    scale = np.abs(expected).max(axis=0) + (right == 0).all(axis=0)
    np.testing.assert_allclose(factor(right) / scale, expected / scale, atol=1e-5)


def test_a_few_iterations_correct_its_rounding(given, half_of, tmp_path):
    options = {"ridge": 1e-3, "tolerance": 1e-11}
    expected = regress(*given, ridge=1e-3).predictions
    for number, matrix in enumerate((given[0], half_of(given[0]))):
        path = tmp_path / f"{number}.npy"
        fit = regress_cg(matrix, *given[1:], **options, factor=path)
        assert fit.iterations <= 5 < regress_cg(matrix, *given[1:], **options).iterations
        assert fit.residual <= 1e-10
        np.testing.assert_allclose(fit.predictions, expected, rtol=1e-7, atol=1e-8)


def test_a_factor_that_is_there_is_used(given, tmp_path, monkeypatch):
    path = tmp_path / "factor.npy"
    first = regress_cg(*given, ridge=0.1, factor=path)
    monkeypatch.delattr(disk_factor, "_factorise")
    # For other targets too; the rows of its panels are those that it was begun with.
    monkeypatch.setattr(memory, "host_available", lambda: 1e7)
    again = regress_cg(given[0], given[1][:, ::-1], given[2], ridge=0.1, factor=path)
    np.testing.assert_allclose(again.predictions, first.predictions[:, ::-1], rtol=1e-10)
    with pytest.raises(InputError, match="holds a Cholesky factor of another system"):
        regress_cg(*given, ridge=0.2, factor=path)


def test_panels_take_a_fifth_of_the_memory():
    for n, available in ((60_000, 16e9), (20_000, 8e9), (200_000, 64e9)):
        panels = disk_factor.Panels(n, disk_factor.choose_rows(n, available))
        np.testing.assert_allclose(panels.held, available / 5, rtol=1e-3)
    assert disk_factor.choose_rows(20_000, 1e12) == 20_000
    # Float32: a panel, its square part twice, two slabs of 512 rows.
    assert disk_factor.Panels(1000, 100).held == 4 * (100 * 1000 + 2 * 100**2 + 2 * 512 * 1000)
    assert disk_factor.choose_rows(60_000, 1e6) == 512


def test_what_is_held_is_what_was_stated(tmp_path, small_slabs):
    n, rows = 600, 120
    matrix = np.eye(n, dtype=np.float32)
    disk_factor.make(matrix, 0.5, tmp_path / "first.npy", rows)  # what is loaded once
    tracemalloc.start()
    disk_factor.make(matrix, 0.5, tmp_path / "second.npy", rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * disk_factor.Panels(n, rows).held


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_disk_factor import _problem
from lsa_jax.kernels.solve import disk_factor
found = disk_factor._factorise
def stop(*arguments):
    if arguments[-1] == 140:
        os.kill(os.getpid(), signal.SIGKILL)
    return found(*arguments)
disk_factor._factorise = stop
disk_factor.make(_problem()[0], 0.5, Path(sys.argv[1]), 70)
"""


def test_a_killed_factorisation_goes_on_with_the_same_bits(given, tmp_path, monkeypatch):
    whole, path = tmp_path / "whole.npy", tmp_path / "killed.npy"
    disk_factor.make(given[0], 0.5, whole, 70)
    here = Path(__file__).parent
    ended = subprocess.run([sys.executable, "-c", _KILLED, path, here])
    assert ended.returncode == -signal.SIGKILL
    computed, found = [], disk_factor._factorise
    monkeypatch.setattr(disk_factor, "_factorise", lambda *a: computed.append(a[-1]) or found(*a))
    disk_factor.make(given[0], 0.5, path)
    assert computed == [140, 210, 280]
    np.testing.assert_array_equal(np.load(path), np.load(whole))


@pytest.mark.parametrize("rows", ["many", 0, [70]])
def test_a_record_of_other_panels_is_refused(given, tmp_path, rows):
    path = tmp_path / "factor.npy"
    disk_factor.make(given[0], 0.5, path, 70)
    record = path.with_name("factor.npy.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"rows": rows}))
    with pytest.raises(InputError, match="factor.npy, whose record has panels of .* rows; acc"):
        disk_factor.make(given[0], 0.5, path)


def test_the_file_of_a_factor_is_no_gram_matrix(given, tmp_path):
    path = tmp_path / "factor.npy"
    disk_factor.make(given[0], 0.5, path, 70)
    with pytest.raises(InputError, match="factor.npy, whose record has tiles of None"):
        gram(lambda x1, x2: x1 @ x2.T, np.ones((300, 2), np.float32), path=path)


def test_what_is_not_positive_definite_in_float32_is_refused(given, tmp_path):
    with pytest.raises(NumericalError, match="not positive definite in float32"):
        regress_cg(*given, ridge=1e-9, factor=tmp_path / "factor.npy")


def test_bad_arguments_are_refused(given, half_of, tmp_path, monkeypatch):
    path = tmp_path / "factor.npy"
    with pytest.raises(InputError, match="rank is 5 and factor is .*; accepted: one of them"):
        regress_cg(*given, ridge=0.1, rank=5, factor=path)
    with pytest.raises(InputError, match="accepted: a name that ends in .npy"):
        regress_cg(*given, ridge=0.1, factor=tmp_path / "factor")
    shared = half_of(given[0])
    shared.group = ProcessGroup(0, 2)
    with pytest.raises(InputError, match="2 processes share the matrix; accepted: None"):
        conjugate_gradients._chosen(shared, None, path, None)
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda _: type("", (), {"free": 1e5}))
    with pytest.raises(InputError, match="its disk has 1e.05 left"):
        regress_cg(*given, ridge=0.1, factor=path)
    assert not path.exists()
