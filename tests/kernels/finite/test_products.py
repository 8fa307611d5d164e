"""Sums of products of factors, by bands and chunks, against whole products."""

import re
from functools import partial

import jax
import numpy as np
import pytest
from jax import lax

from lsa_jax.kernels.finite import products


def _first_in_pieces(factors):
    """Gives the first factor, of 8 columns or 16, in pieces of four."""

    def piece(at):
        return lax.dynamic_slice_in_dim(factors[0], 4 * at, 4, axis=1)

    return [products.Pieces(factors[0].shape[1] // 4, piece), *factors[1:]]


@pytest.mark.parametrize(
    ("form", "shapes"),
    [
        (list, [(7, 8), (7, 10)]),
        (list, [(7, 8)]),
        (list, [(2, 3)]),
        (list, [(8, 6)]),
        (_first_in_pieces, [(7, 8), (7, 10)]),
        (_first_in_pieces, [(7, 8)]),
        (_first_in_pieces, [(7, 16)]),
    ],
)
def test_sums_of_products_and_their_derivatives_equal_those_of_whole_products(
    key, monkeypatch, form, shapes
):
    monkeypatch.setitem(products._BLOCK, "cpu", 3)
    monkeypatch.setitem(products._CHUNK, "cpu", 4)
    # Chunks and bands that are whole and such that are not.
    factors = [jax.random.normal(key, shape) for shape in shapes]
    weights = jax.random.normal(key, (len(factors[0]), len(factors[0])))

    @partial(jax.jit, static_argnums=0)
    def value_and_derivative(kernel, factors):
        value, back = jax.vjp(kernel, factors)
        return value, back(weights)[0]

    expected = value_and_derivative(lambda two: sum(a @ a.T for a in two), factors)
    for kernel in (
        lambda two: products.sum_of_grams(form(two)),
        lambda two: products.sum_of_products(form(two), form(two)),
    ):
        ours = value_and_derivative(kernel, factors)
        for result, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("n", "share"), [(99, 1), (200, 3 / 4), (1024, 5 / 8)])
def test_of_a_symmetric_matrix_little_more_than_half_is_computed(n, share):
    """A square of 1,024 by blocks of 256, and one of 200 by blocks of 100."""
    factor = jax.ShapeDtypeStruct((n, 10), "float32")
    program = str(jax.make_jaxpr(products.sum_of_grams)([factor]))
    outputs = re.findall(r"f32\[(\d+),(\d+)\] = dot_general", program)
    assert sum(int(rows) * int(columns) for rows, columns in outputs) == share * n * n
