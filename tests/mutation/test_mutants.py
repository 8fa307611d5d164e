"""Mutants are single changes that compile, each once, and the same ones for the same seed."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray")

_HERE = Path(__file__).parent
SOURCE = '''
def share(x: "n 2", *, axis: int = 0) -> int | None:
    """Returns 1 - x over its mean."""
    if x.ndim < 1:
        raise ValueError(f"{x.ndim + 1} is wrong")
    return jnp.mean(1 - a * x ** b, axis=axis) @ c

def draw(x):
    import matplotlib.pyplot as plt
    return plt.plot(x + 1)
'''


def _module(name):
    spec = importlib.util.spec_from_file_location(name, _HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def mutants():
    return _module("mutants")


@pytest.fixture(scope="module")
def mutants_of(mutants):
    return mutants.mutants_of


def test_each_is_one_change_of_a_line_that_computes(mutants_of):
    found, total = mutants_of(SOURCE, 0, 0)
    assert len(found) == total == len({mutant.source for mutant in found})
    assert {mutant.line for mutant in found} == {4, 6}  # no types, messages or figures
    after = {mutant.after for mutant in found}
    for formula in (
        "jnp.mean(1 + a * x ** b, axis=axis) @ c",
        "jnp.mean(2 - a * x ** b, axis=axis) @ c",
        "jnp.mean(1 - x ** b, axis=axis) @ c",
        "jnp.mean(1 - a * x, axis=axis) @ c",
        "jnp.mean(1 - a * x ** b) @ c",
        "jnp.sum(1 - a * x ** b, axis=axis) @ c",
        "jnp.mean(1 - a * x ** b, axis=axis)",
    ):
        assert any(line.replace(" ", "") == f"return{formula.replace(' ', '')}" for line in after)


def test_a_sample_is_that_of_its_seed(mutants_of):
    (few, total), (again, _), (other, _) = (mutants_of(SOURCE, 9, seed) for seed in (0, 0, 1))
    assert few == again != other and len(few) == 9 < total


def test_guards_and_digits_shown_are_not_science_and_all_else_is(mutants):
    source = "x = sum(a * b for a, b in zip(c, d, strict=True)) + round(e, 3) + f.round(2)"
    source += " + round(g.h(i), 1) + j(digits=6)\n"
    found, _ = mutants.mutants_of(source, 0, 0)
    unseen = {mutant.after for mutant in found if mutants.is_unseen(mutant)}
    pairs = [(", 3)", ", 4)"), ("round(2)", "round(1)"), ("), 1)", "), 2)"), ("=6", "=7")]
    digits = [source.strip().replace(*pair) for pair in pairs]
    assert {line.replace("  ", " ").replace("( ", "(").replace("s= ", "s=") for line in unseen} >= {
        source.strip().replace(", strict=True", ""),
        *digits,
    }
    for line in unseen:
        assert "a * b for a, b in" in line and "+ round(e," in line and "+ f.round(" in line
    assert len(found) > 2 * len(unseen)


def test_a_module_has_one_row_that_keeps_its_first_share():
    scores = _module("scores")
    table = scores.updated("", "lsa_jax/b.py", scores.Score(50, 20, 15), "abc")
    table = scores.updated(table, "lsa_jax/a.py", scores.Score(9, 8, 8), "abc")
    table = scores.updated(table, "lsa_jax/b.py", scores.Score(51, 20, 19), "def")
    assert table.splitlines()[-2:] == [
        "| lsa_jax/a.py | 9 | 8 | 8 | 100 % | 100 % | abc |",
        "| lsa_jax/b.py | 51 | 20 | 19 | 95 % | 75 % | def |",
    ]
