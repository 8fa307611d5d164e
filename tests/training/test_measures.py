"""Measures of lazy and rich: against closed forms of linear networks and automatic derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels, training
from lsa_jax.training import measures


def linear(params, x):
    """f(x) = V W x, whose kernel is known: x.x' |V|^2 / c + (W x).(W x')."""
    return x @ params["W"].T @ params["V"].T


def linear_kernel(params, x):
    w, v = (np.asarray(params[name], np.float64) for name in "WV")
    hidden = x @ w.T
    return x @ x.T * np.sum(v**2) / len(v) + hidden @ hidden.T


@pytest.fixture
def two(key):
    """Returns two sets of parameters of a linear network, inputs and targets."""
    keys = jax.random.split(key, 6)
    start, now = (
        {"W": jax.random.normal(a, (7, 4)), "V": jax.random.normal(b, (3, 7))}
        for a, b in (keys[:2], keys[2:4])
    )
    return start, now, jax.random.normal(keys[4], (70, 4)), jax.random.normal(keys[5], (70, 3))


def cka(a, b):
    h = np.eye(len(a)) - 1 / len(a)
    a, b = h @ a @ h, h @ b @ h
    return np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b)


def test_kernel_measures_of_linear_networks_equal_their_closed_forms(two):
    start, now, x, y = two
    k0, kt = (linear_kernel(p, np.asarray(x, np.float64)) for p in (start, now))
    distance = 1 - np.sum(k0 * kt) / np.linalg.norm(k0) / np.linalg.norm(kt)
    found = measures.measure(tuple(measures.MEASURES), linear, start, now, x, y)
    np.testing.assert_allclose(found["kernel_distance"], distance, atol=1e-5)
    np.testing.assert_allclose(found["kernel_alignment"], cka(k0, kt), atol=1e-5)
    y = np.asarray(y, np.float64)
    np.testing.assert_allclose(found["target_alignment"], cka(kt, y @ y.T), atol=1e-5)


def test_the_linearization_gap_is_the_share_of_products_of_changes(two):
    start, now, x, _ = two
    w0, v0, w, v = (np.asarray(p[name], np.float64) for p in (start, now) for name in "WV")
    # f = V W x, whose change is linear but for (V - V_0) (W - W_0) x.
    missed, moved = ((m @ np.asarray(x, float).T) for m in ((v - v0) @ (w - w0), v @ w - v0 @ w0))
    expected = np.linalg.norm(missed) / np.linalg.norm(moved)
    found = measures.linearization_gap(linear, start, now, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.isnan(measures.linearization_gap(linear, start, start, x))


@pytest.mark.parametrize("loss", [training.squared_error, training.softmax_cross_entropy])
def test_the_sharpness_is_the_dense_hessians_largest_eigenvalue(two, loss):
    start, _, x, _ = two
    y = jax.nn.softmax(3 * x[:, :3])

    def mean_loss(flat):
        return jnp.mean(loss(linear(unravel(flat), x), y))

    flat, unravel = jax.flatten_util.ravel_pytree(start)
    expected = np.linalg.eigvalsh(jax.hessian(mean_loss)(flat))[-1]
    found = measures.sharpness(linear, start, x, y, loss)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_weights_move_by_layer():
    start = {"a": {"w": np.full((2, 2), 3.0), "b": np.zeros(2)}, "c": np.full(4, 2.0)}
    now = {"a": {"w": np.full((2, 2), 3.0), "b": np.full(2, 3.0)}, "c": np.full(4, 1.0)}
    found = measures.weight_movement(start, now)
    np.testing.assert_allclose([found["a"], found["c"]], [np.sqrt(18 / 36), 0.5], rtol=1e-6)


def test_activations_change_by_their_root_mean_square_layer_by_layer():
    x = np.array([[1.0, -2.0], [3.0, 0.5]], np.float32)

    def activations(params, x):
        hidden = x * params
        return hidden.sum(axis=1, keepdims=True), {"Relu_0": hidden, "Relu_1": hidden[:, :1] ** 2}

    one, three = (jnp.float32(number) for number in (1.0, 3.0))
    found = measures.activation_change(activations, one, three, x)
    # x goes to 3 x: layers change by 2 x, by 8 x_1^2, and their sum by 2 (x_1 + x_2).
    expected = {
        "Relu_0": np.sqrt(4 * np.mean(x**2)),
        "Relu_1": np.sqrt(64 * np.mean(x[:, 0] ** 4)),
        "outputs": np.sqrt(4 * np.mean(x.sum(axis=1) ** 2)),
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


def test_gradient_outer_products_of_linear_networks_equal_their_closed_form(two):
    _, now, x, _ = two
    w, v = (np.asarray(now[name], np.float64) for name in "WV")
    found = {layer.name: layer for layer in kernels.layer_gradients(linear, now, x)}
    np.testing.assert_allclose(found["W"].outer_product, w.T @ v.T @ v @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["V"].outer_product, v.T @ v, rtol=1e-4, atol=1e-4)
    correlations = measures.agop_correlation(linear, now, x)
    expected = np.corrcoef((w.T @ w).ravel(), (w.T @ v.T @ v @ w).ravel())[0, 1]
    np.testing.assert_allclose(correlations["W"], expected, atol=1e-5)
    np.testing.assert_allclose(correlations["V"], 1, atol=1e-5)  # f is linear in what V sees


def _readout(params, x):
    return x @ params


def test_low_rank_distance_is_zero_in_collapse_and_known_for_white_features():
    classes = np.repeat(np.eye(4), 5, axis=0).astype(np.float32)
    np.testing.assert_allclose(
        measures.low_rank_distance(_readout, np.eye(4, dtype=np.float32), classes), 0, atol=1e-5
    )
    rows = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 9)))[0]
    white = np.linalg.qr(rows - rows.mean(0))[0].astype(np.float32)  # centred and orthonormal
    readout = np.eye(9, 3, dtype=np.float32)
    found = measures.low_rank_distance(_readout, readout, white)
    np.testing.assert_allclose(found, 1 - np.sqrt(3 / 9), atol=1e-4)
    np.testing.assert_allclose(measures.effective_rank(_readout, readout, white), 9, rtol=1e-4)


@pytest.mark.parametrize("shape", [(12, 40), (40, 6)])
def test_effective_rank_is_that_of_singular_values_in_float64(key, shape):
    x = np.asarray(jax.random.normal(key, shape)) * np.geomspace(1, 1e-5, shape[1])
    x = x.astype(np.float32)
    exact = np.asarray(x, float) - np.asarray(x, float).mean(axis=0)
    share = np.linalg.svd(exact, compute_uv=False) / np.linalg.svd(exact, compute_uv=False).sum()
    share = share[share > 0]
    found = measures.effective_rank(_readout, np.eye(shape[1], 2, dtype=np.float32), x)
    np.testing.assert_allclose(found, np.exp(-np.sum(share * np.log(share))), rtol=1e-4)


def test_linearisation_residuals_are_those_of_the_jacobian_and_nothing_in_a_linear_network():
    def apply(params, x):
        return jnp.tanh(x @ params["w"]) @ params["a"]

    rng, shapes = np.random.default_rng(0), {"w": (3, 6), "a": (6, 2)}
    start, change = (
        {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}
        for _ in range(2)
    )
    x = jnp.asarray(rng.normal(size=(5, 3)))
    end = jax.tree.map(jnp.add, start, change)
    jacobian = jax.jacobian(apply)(start, x)
    step = sum(jnp.tensordot(jacobian[name], change[name], 2) for name in shapes)
    moved = apply(end, x) - apply(start, x)
    for centred in (False, True):
        expected = [moved - step, moved]
        if centred:
            expected = [a - a.mean(1, keepdims=True) for a in expected]
        found = measures.linearization_residual(apply, start, end, x, centred)
        np.testing.assert_allclose(found, [jnp.sum(a**2) for a in expected], rtol=1e-5)
    linear = kernels.linearize(apply, start)
    missed, _ = measures.linearization_residual(linear, start, end, x, False)
    assert missed < 1e-9


def test_measures_that_compare_sizes_do_not_depend_on_the_scale(two):
    start, now, x, _ = two
    k0, kt = (linear_kernel(p, np.asarray(x, np.float64)) for p in (start, now))

    def found(scale):
        """Returns measures of matrices, weights and features of this scale."""
        sizes = [{"W": scale * params["W"]} for params in (start, now)]
        apply = lambda params, x: x @ params["V"].T  # noqa: E731
        features = apply, {"V": now["V"][:, :4]}, scale * x
        return [
            measures.cosine(np.float32(scale * k0), np.float32(kt)),
            measures.centred_alignment(np.float32(scale * k0), np.float32(kt)),
            measures.weight_movement(*sizes)["W"],
            measures.effective_rank(*features),
            measures.low_rank_distance(*features),
        ]

    for scale in (1e-28, 1e24):
        np.testing.assert_allclose(found(scale), found(1.0), rtol=1e-4)


@pytest.mark.usefixtures("unchecked")
def test_the_sharpness_of_one_weight_is_its_second_derivative():
    x = np.arange(3.0, dtype=np.float32)[:, None]
    for weight in (np.float32(2), 2):
        found = measures.sharpness(
            lambda w, x: w * x, weight, x, np.zeros((3, 1)), training.squared_error
        )
        np.testing.assert_allclose(found, 5 / 3, rtol=1e-6)
