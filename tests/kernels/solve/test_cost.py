"""The solver that is chosen is the one that takes less, of those that fit."""

import pytest

from lsa_jax.errors import InputError
from lsa_jax.kernels import choose_solver
from lsa_jax.kernels.matrices import memory


def test_few_examples_are_factorised_and_many_iterated(monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: 1e12)
    assert choose_solver(5_000, 10).solver == "cholesky"
    assert choose_solver(60_000, 10).solver == "conjugate_gradients"
    # With more targets an iteration costs more, and a factorisation does not.
    assert choose_solver(60_000, 100).solver == "cholesky"
    assert "about 3.1 times as long as 80 iterations" in choose_solver(60_000, 10).reason


def test_what_does_not_fit_the_memory_is_iterated(monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: 1e9)
    choice = choose_solver(10_000, 100)
    assert choice.solver == "conjugate_gradients"
    assert choice.reason == "a factorisation takes 1.2e+09 bytes, and 1e+09 are available"
    with pytest.raises(InputError, match="n is 0"):
        choose_solver(0, 1)
