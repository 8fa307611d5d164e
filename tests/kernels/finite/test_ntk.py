"""Linearisation and finite NTK against explicit Jacobians in float64 numpy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend
from lsa_jax.errors import InputError
from lsa_jax.kernels import empirical_ntk, finite_kernel, gram, linearize, linearize_on
from lsa_jax.kernels.matrices import memory
from lsa_jax.models import Conv, Dense, Flatten, Relu, network


def _apply(params, inputs):
    hidden = jnp.tanh(inputs @ params["hidden"])
    return hidden @ params["readout"] + params["bias"]


@pytest.fixture
def params(key):
    first, second, third = jax.random.split(key, 3)
    return {
        "hidden": jax.random.normal(first, (4, 7)),
        "readout": jax.random.normal(second, (7, 3)),
        "bias": jax.random.normal(third, (1, 3)),
    }


def _jacobian(params, inputs):
    """d f_c / d theta by hand: [n, c, parameters], float64."""
    hidden, readout = (np.asarray(params[name], float) for name in ("hidden", "readout"))
    x = np.asarray(inputs, float)
    activity = np.tanh(x @ hidden)
    slope = 1 - activity**2
    classes = np.eye(3)
    by_hidden = np.einsum("ni,nj,jc->ncij", x, slope, readout)
    by_readout = np.einsum("nj,cd->ncjd", activity, classes)
    by_bias = np.broadcast_to(classes, (len(x), 3, 3))
    return np.concatenate(
        [part.reshape(len(x), 3, -1) for part in (by_hidden, by_readout, by_bias)], -1
    )


@pytest.mark.parametrize("method", ["jacobian", "vector_products", "layerwise"])
@pytest.mark.parametrize("sizes", [(1, 1), (5, 3), (2, 7)])
def test_empirical_ntk_equals_the_product_of_jacobians(key, params, method, sizes):
    x1, x2 = (jax.random.normal(jax.random.fold_in(key, n), (n, 4)) for n in sizes)
    expected = np.einsum("nap,mbp->nmab", _jacobian(params, x1), _jacobian(params, x2))
    ntk = jax.jit(functools.partial(empirical_ntk, _apply, method=method), static_argnames="full")
    full = ntk(params, x1, x2, full=True)
    np.testing.assert_allclose(full, expected, rtol=1e-4, atol=1e-4)
    mean = np.einsum("nmaa->nm", expected) / 3
    np.testing.assert_allclose(ntk(params, x1, x2), mean, rtol=1e-4, atol=1e-4)


def test_empirical_ntk_of_examples_with_themselves_is_symmetric_and_positive(key, params):
    matrix = np.asarray(empirical_ntk(_apply, params, jax.random.normal(key, (6, 4))), float)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-5)
    assert np.linalg.eigvalsh(matrix).min() > -1e-4


def test_linearize_is_the_first_order_expansion(key, params):
    inputs = jax.random.normal(key, (5, 4))
    step = jax.tree.map(lambda a: jax.random.normal(key, a.shape), params)
    moved = jax.tree.map(jnp.add, params, step)
    flat = np.concatenate(
        [np.asarray(step[n], float).ravel() for n in ("hidden", "readout", "bias")]
    )
    expected = np.asarray(_apply(params, inputs), float) + _jacobian(params, inputs) @ flat
    np.testing.assert_allclose(
        linearize(_apply, params)(moved, inputs), expected, rtol=1e-4, atol=1e-4
    )


def test_the_linearisation_on_known_examples_and_its_gradient_equal_those_of_linearize(key, params):
    inputs = jax.random.normal(key, (5, 4))
    moved = jax.tree.map(lambda a: a + 0.3, params)

    @jax.jit
    def by_expansions(params, moved):
        examples, apply_lin = linearize_on(_apply, params, inputs)
        rows = jax.tree.map(lambda a: a[1:4], examples)
        return jax.value_and_grad(lambda p: jnp.sum(apply_lin(p, rows) ** 2))(moved), examples

    ours, _ = by_expansions(params, moved)
    linear = linearize(_apply, params)
    expected = jax.jit(jax.value_and_grad(lambda p: jnp.sum(linear(p, inputs[1:4]) ** 2)))(moved)
    for a, b in zip(*map(jax.tree.leaves, (ours, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(jnp.abs(b).max()))


def test_examples_whose_derivatives_do_not_fit_the_memory_are_refused(key, params, monkeypatch):
    monkeypatch.setattr(memory, "device_available", lambda: 1000.0)
    with pytest.raises(InputError, match=r"x is \(50, 4\): keeping the derivatives of its 50 ex"):
        linearize_on(_apply, params, jax.random.normal(key, (50, 4)))


def test_linearize_leaves_an_error_of_second_order(key, params):
    inputs = jax.random.normal(key, (5, 4))
    errors = []
    for scale in (0.1, 0.05):
        moved = jax.tree.map(lambda a, s=scale: a + s, params)
        gap = linearize(_apply, params)(moved, inputs) - _apply(moved, inputs)
        errors.append(float(jnp.linalg.norm(gap)))
    assert 1.7 < np.log2(errors[0] / errors[1]) < 2.3


def test_gradient_of_the_linearisation_does_not_depend_on_where_it_is_taken(key, params):
    inputs = jax.random.normal(key, (5, 4))
    linear = linearize(_apply, params)
    total = jax.jit(jax.grad(lambda p: jnp.sum(linear(p, inputs))))
    moved = jax.tree.map(lambda a: a + 0.3, params)
    for name, gradient in total(params).items():
        np.testing.assert_allclose(gradient, total(moved)[name], rtol=1e-5, atol=1e-5)


def test_linearize_works_for_many_expansion_points_at_once(key, params):
    inputs = jax.random.normal(key, (5, 4))
    many = jax.tree.map(lambda a: jnp.stack([a, a + 0.1, a - 0.2]), params)
    moved = jax.tree.map(lambda a: a + 0.05, params)
    together = jax.vmap(lambda p: linearize(_apply, p)(moved, inputs))(many)
    for i in range(3):
        alone = linearize(_apply, jax.tree.map(lambda a, i=i: a[i], many))(moved, inputs)
        np.testing.assert_allclose(together[i], alone, rtol=1e-4, atol=1e-5)


def _assert_full_precision(function, *arguments):
    """Every product of a program asks for all digits, whatever the accelerator's default."""
    program = jax.jit(function).lower(*arguments).as_text().splitlines()
    products = [line for line in program if "dot_general" in line or "convolution" in line]
    assert products and all("HIGHEST" in line for line in products)


@pytest.mark.parametrize("method", ["jacobian", "vector_products", "layerwise", "auto"])
def test_products_of_the_finite_ntk_are_in_full_precision(key, method):
    model = network([Conv(2, b_std=0.1), Relu(), Flatten(), Dense(5), Relu(), Dense(3)])
    params, x = model.init(key, (3, 3, 1)), jnp.ones((2, 3, 3, 1))
    for diagonal in (False, True):
        ntk = functools.partial(empirical_ntk, model.apply, method=method, diagonal=diagonal)
        _assert_full_precision(ntk, params, x)


def test_products_of_the_linearisation_on_known_examples_are_in_full_precision(key, params):
    def gradient(params, moved, inputs):
        examples, apply_lin = linearize_on(_apply, params, inputs)
        return jax.grad(lambda p: jnp.sum(apply_lin(p, examples) ** 2))(moved)

    _assert_full_precision(gradient, params, params, jnp.ones((2, 4)))


@pytest.mark.parametrize("method", ["jacobian", "vector_products", "layerwise", "auto"])
def test_the_finite_ntk_of_no_examples_is_empty(params, method):
    ntk = functools.partial(empirical_ntk, _apply, params, method=method)
    some, none = jnp.ones((2, 4)), jnp.ones((0, 4))
    assert ntk(none).shape == (0, 0) and ntk(none, full=True).shape == (0, 0, 3, 3)
    assert ntk(none, some).shape == (0, 2) and ntk(some, none).shape == (2, 0)
    assert ntk(none, diagonal=True).shape == (0,)


def test_an_expansion_holds_a_layers_inputs_and_cotangents_where_they_are_half_as_many(key):
    # At p positions a layer takes p (k + c f) numbers, against c k f of its Jacobian.
    weight, moved = jax.random.normal(key, (2, 30, 20))

    def apply(weight, x):
        return jnp.sum(jnp.tanh(x @ weight), axis=1)[:, :3]

    for positions, numbers in ((9, 9 * (30 + 3 * 20)), (11, 3 * 30 * 20)):
        x = jax.random.normal(key, (2, positions, 30))
        examples, apply_lin = linearize_on(apply, weight, x)
        assert backend.size_in_bytes(examples) == 2 * 4 * (numbers + 3)  # and the outputs
        expected = linearize(apply, weight)(moved, x)
        np.testing.assert_allclose(apply_lin(moved, examples), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("unchecked")
def test_unknown_methods_and_shapes_that_differ_are_refused(params):
    with pytest.raises(InputError, match="method is 'magic'; accepted: one of 'auto', 'jacobian',"):
        empirical_ntk(_apply, params, jnp.ones((2, 4)), method="magic")
    with pytest.raises(InputError, match=r"x1 is \(2, 4\) and x2 is \(2, 5\)"):
        empirical_ntk(_apply, params, jnp.ones((2, 4)), jnp.ones((2, 5)))
    with pytest.raises(InputError, match=r"apply turns x1 \(2, 4\) into \(2,\)"):
        empirical_ntk(lambda params, x: _apply(params, x)[:, 0], params, jnp.ones((2, 4)))


def test_what_does_not_fit_the_memory_at_once_is_refused_outside_of_a_program(
    key, params, monkeypatch
):
    monkeypatch.setattr(memory, "device_available", lambda: 1000.0)
    ntk = functools.partial(empirical_ntk, _apply, params)
    with pytest.raises(InputError, match=r"the kernel of all examples of \(50, 4\) at once takes"):
        ntk(jax.random.normal(key, (50, 4)))
    assert jax.eval_shape(ntk, jax.ShapeDtypeStruct((50, 4), jnp.float32)).shape == (50, 50)


def test_many_outputs_of_few_parameters_are_refused_where_all_of_their_pairs_do_not_fit(
    monkeypatch,
):
    monkeypatch.setattr(memory, "device_available", lambda: 1e6)
    with pytest.raises(InputError, match="at once takes"):  # 16 MB of numbers
        empirical_ntk(
            lambda scale, x: scale * x * jnp.ones((1, 1000)),
            jnp.ones(()),
            jnp.ones((2, 1)),
            full=True,
        )


def test_a_gram_of_a_network_that_shapes_by_the_rest_is_that_of_one_call(key):
    weights, x = jax.random.normal(key, (4, 3)), jax.random.normal(key, (5, 2, 2))

    def apply(weights, x):
        return jnp.tanh(x.reshape(len(x), -1) @ weights)

    kernel = finite_kernel(apply, weights)
    np.testing.assert_allclose(gram(kernel, x, tile=2), kernel(x), rtol=1e-4, atol=1e-5)


def test_empirical_ntk_goes_through_gram(key, params):
    kernel = jax.jit(functools.partial(empirical_ntk, _apply, params))
    x1, x2 = (jax.random.normal(jax.random.fold_in(key, n), (n, 4)) for n in (7, 5))
    np.testing.assert_allclose(gram(kernel, x1, x2, tile=3), kernel(x1, x2), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gram(kernel, x1, tile=3), kernel(x1), rtol=1e-4, atol=1e-5)


def test_a_gram_of_the_finite_ntk_is_float64_where_its_parameters_are(key, params):
    inputs = np.random.default_rng(0).normal(size=(5, 4))
    wide = jax.tree.map(lambda a: np.asarray(a, float), params)
    jacobian = _jacobian(wide, inputs)
    matrix = gram(functools.partial(empirical_ntk, _apply, wide), inputs, dtype="float64")
    np.testing.assert_allclose(matrix, np.einsum("ncp,mcp->nm", jacobian, jacobian) / 3, rtol=1e-12)
    with pytest.raises(InputError, match="dtype is 'float64', and kernel turns inputs of float64"):
        gram(functools.partial(empirical_ntk, _apply, params), inputs, dtype="float64")


def test_descent_in_a_scan_reaches_the_least_squares_solution_of_the_linearisation(key, params):
    inputs = jax.random.normal(key, (2, 4))
    targets = jnp.ones((2, 3))

    @jax.jit
    def descend(initial):
        def error(moved):
            return jnp.sum((linearize(_apply, initial)(moved, inputs) - targets) ** 2) / 2

        def step(moved, _):
            gradient = jax.grad(error)(moved)
            return jax.tree.map(lambda p, g: p - 0.02 * g, moved, gradient), None

        return jax.lax.scan(step, initial, length=3000)[0]

    jacobian = _jacobian(params, inputs).reshape(6, -1)
    gap = 1 - np.asarray(_apply(params, inputs), float).ravel()
    expected = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T, gap)  # the nearest solution
    moved = descend(params)
    step = np.concatenate([np.ravel(moved[n] - params[n]) for n in ("hidden", "readout", "bias")])
    np.testing.assert_allclose(step, expected, rtol=1e-2, atol=1e-3)
