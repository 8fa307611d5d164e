"""The solver that is chosen is the one that takes less, of those that fit."""

import pytest

from lsa_jax.errors import InputError
from lsa_jax.kernels import choose_solver
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.solve import cost


@pytest.fixture
def roomy(monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: 1e12)


@pytest.fixture
def free_disk(monkeypatch):
    def set_to(free):
        monkeypatch.setattr(cost.shutil, "disk_usage", lambda _: type("", (), {"free": free}))

    return set_to


@pytest.mark.usefixtures("roomy")
def test_few_examples_are_factorised_and_many_iterated():
    assert choose_solver(5_000, 10).solver == "cholesky"
    assert choose_solver(60_000, 10).solver == "conjugate_gradients"
    # With more targets an iteration costs more, and a factorisation does not.
    assert choose_solver(60_000, 100).solver == "cholesky"
    # They are level where n^3 / 3 = 80 x 2 n^2 (c + 40).
    assert choose_solver(23_999, 10).solver == "cholesky"
    assert choose_solver(24_001, 10).solver == "conjugate_gradients"
    assert choose_solver(60_000, 10).reason == (
        "for 60,000 examples and 10 targets 80 iterations take about 2.9e+13 operations, a "
        "factorisation 7.2e+13"
    )


def test_what_does_not_fit_the_memory_is_iterated(monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: 1e9)
    choice = choose_solver(10_000, 100)
    assert choice.solver == "conjugate_gradients"
    assert choice.reason.endswith("a factorisation 1.2e+09 bytes of 1e+09 that are available")
    with pytest.raises(InputError, match="n is 0"):
        choose_solver(0, 1)


def test_a_factor_goes_to_disk_where_it_pays_and_fits(monkeypatch, tmp_path, free_disk):
    monkeypatch.setattr(memory, "host_available", lambda: 20e9)
    free_disk(1e11)
    # n^3 / 3 / 1.3 + 16 n^2 (c + 40) against 160 n^2 (c + 40): level at 67 targets.
    assert choose_solver(60_000, 66, disk=tmp_path).solver == "conjugate_gradients"
    choice = choose_solver(60_000, 67, disk=tmp_path)
    assert choice.solver == "cholesky_on_disk" and choice.reason.endswith("one on disk 6.2e+13")
    assert choose_solver(60_000, 67).solver == "conjugate_gradients"
    free_disk(8e9)  # more than half of the matrix, as panels are not triangles
    choice = choose_solver(60_000, 100, disk=tmp_path)
    assert choice.solver == "conjugate_gradients"
    assert choice.reason.endswith("one on disk 8.5e+09 bytes of 8e+09 that are free")
    # In memory where there is room for it, though float32 is faster on disk: only for many more.
    monkeypatch.setattr(memory, "host_available", lambda: 1e12)
    free_disk(1e11)
    assert choose_solver(5_000, 100, disk=tmp_path).solver == "cholesky"
