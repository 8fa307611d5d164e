"""Tangent kernels of a network whose kernel can be written down, by each method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend
from lsa_jax.errors import InputError
from lsa_jax.kernels import empirical_ntk, finite_kernel
from lsa_jax.kernels.finite import contraction
from lsa_jax.kernels.finite import ntk as finite
from lsa_jax.kernels.matrices import memory

RNG = np.random.default_rng(0)
WEIGHT, READOUT = (RNG.normal(size=shape).astype(np.float32) / 2 for shape in ((4, 5), (5, 3)))
X1, X2 = (RNG.normal(size=(n, 4)).astype(np.float32) for n in (6, 2))


def apply(weight, x):
    return jnp.tanh(x @ weight @ jnp.float32(READOUT))


def by_hand(x1, x2):
    """K_cd = x . x' s_c s'_d sum_j M_jc M_jd, with the slopes s of tanh."""
    slopes = [1 - np.tanh(x.astype(float) @ WEIGHT @ READOUT) ** 2 for x in (x1, x2)]
    products = x1.astype(float) @ x2.T
    return np.einsum("ab,ac,bd,jc,jd->abcd", products, *slopes, READOUT, READOUT)


@pytest.mark.parametrize("of", [contraction.by_jacobians, contraction.by_vector_products])
def test_kernels_are_products_of_derivatives(of):
    for columns in (None, X2):
        expected = by_hand(X1, X1 if columns is None else columns)
        full = of(apply, WEIGHT, X1, columns, full=True)
        np.testing.assert_allclose(full, expected, rtol=1e-4, atol=1e-5)
        mean = np.einsum("abcc->ab", expected) / 3
        np.testing.assert_allclose(of(apply, WEIGHT, X1, columns), mean, rtol=1e-4, atol=1e-5)


def test_a_diagonal_pairs_examples_in_equal_places():
    params = [WEIGHT, jnp.ones((1, 3))]

    def with_bias(params, x):
        return apply(params[0], x) + params[1]

    expected = np.einsum("aacc->a", by_hand(X1[:2], X2)) / 3
    for selected, more in (([True, False], 0), (True, 1)):
        found = empirical_ntk(
            with_bias, params, X1[:2], X2, diagonal=True, selected=selected, method="jacobian"
        )
        np.testing.assert_allclose(found, expected + more, rtol=1e-4)


def test_a_cpu_computes_sixteen_pairs_of_the_diagonal_at_a_time():
    def ntk(x):
        return empirical_ntk(apply, WEIGHT, x, diagonal=True, method="jacobian")

    (program,) = jax.make_jaxpr(ntk)(np.ones((48, 4))).eqns
    (loop,) = [e for e in program.params["jaxpr"].eqns if e.primitive.name == "scan"]
    assert loop.params["length"] == 3


@pytest.mark.usefixtures("unchecked")
def test_what_is_refused():
    params = [WEIGHT, WEIGHT]
    for wrong in ([True, 1], [False, False]):
        with pytest.raises(InputError, match="selected is"):
            empirical_ntk(lambda p, x: apply(p[0], x), params, X1, selected=wrong)
    for wrong in (lambda w, x: apply(w, x)[:, 0], lambda w, x: apply(w, x)[:1]):
        with pytest.raises(InputError, match="accepted: outputs"):
            empirical_ntk(wrong, WEIGHT, X1)
    with pytest.raises(InputError, match=r"x1 is \(6, 4\) and x2 is \(2, 3\)"):
        empirical_ntk(apply, WEIGHT, X1, X2[:, :3])


@pytest.mark.parametrize("method", ["auto", "jacobian", "vector_products"])
def test_a_method_is_taken_that_is_named_or_cheapest(method, monkeypatch):
    chosen = []

    def program(network, method, full, pairs):
        chosen.append(method)
        return lambda params, x1, x2, rest: jnp.zeros((len(x1), len(x1)))

    monkeypatch.setattr(finite, "_program", program)
    empirical_ntk(apply, WEIGHT, X1, method=method)
    # Weights that act once, in products of few numbers; no examples have no layers.
    assert chosen == ["layerwise" if method == "auto" else method]
    empirical_ntk(apply, WEIGHT, X1[:0], method=method)
    assert chosen[1:] == ["jacobian"]


@pytest.mark.parametrize("diagonal", [False, True])
def test_one_program_serves_all_parameters_those_that_are_not_selected_included(diagonal):
    def product(params, x):
        return x @ params["first"] @ params["last"]

    def ntk(first, last):
        params, selected = {"first": first, "last": last}, {"first": False, "last": True}
        return empirical_ntk(product, params, X1, selected=selected, diagonal=diagonal)

    finite._program.cache_clear()
    for times in (1.0, 3.0):
        first, last = times * np.ones((4, 2), np.float32), np.ones((2, 3), np.float32)
        hidden = X1 @ first  # df_i / dlast_jk is h_j where i is k
        expected = hidden @ hidden.T
        found = ntk(first, last)
        np.testing.assert_allclose(found, np.diag(expected) if diagonal else expected, rtol=1e-4)
    assert finite._program.cache_info()[:2] == (1, 1)  # found again, and made once


def test_a_network_that_cannot_be_looked_up_has_its_kernel_all_the_same():
    class Unhashable:
        __hash__ = None

        def __call__(self, weight, x):
            return apply(weight, x)

    found = empirical_ntk(Unhashable(), WEIGHT, X1)
    np.testing.assert_allclose(found, empirical_ntk(apply, WEIGHT, X1), rtol=1e-6)


def test_derivatives_of_examples_are_kept_where_layers_are_the_cheapest_way():
    example = jax.ShapeDtypeStruct((4,), np.float32)
    prepare, between = finite_kernel(apply, WEIGHT).stages(example)
    found = between(prepare(jnp.array(X1)), prepare(jnp.array(X2)))
    mean = np.einsum("abcc->ab", by_hand(X1, X2)) / 3
    np.testing.assert_allclose(found, mean, rtol=1e-4, atol=1e-5)
    assert finite_kernel(apply, WEIGHT, method="jacobian").stages(example) is None
    assert finite_kernel(apply, WEIGHT).stages(example, full=True) is None
    assert finite_kernel(apply, WEIGHT).stages(example, diagonal=True) is None


@pytest.mark.parametrize("sizes", [(1,), (1, 1), (3, 2)])
def test_the_memory_said_to_be_enough_is_enough(sizes, monkeypatch):
    bounds = []
    monkeypatch.setattr(memory, "check_fits_device", lambda what, most, *rest: bounds.append(most))
    weight = np.ones((50, 60), np.float32)
    sides = [np.ones((n, 50), np.float32) for n in sizes]

    def product(weight, x):
        return x @ weight[:, :1]

    empirical_ntk(product, weight, *sides, method="jacobian")
    # Both sides' Jacobians and the parameters, and as much again beside them.
    assert bounds[0] >= 2 * 4 * (sum(sizes) + 1) * weight.size
    assert bounds[0] >= backend.bytes_one_by_one(
        lambda *given: contraction.by_jacobians(product, *given), weight, *sides
    )
