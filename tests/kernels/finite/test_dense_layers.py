"""Dense layers found in small functions, which still compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lsa_jax.kernels.finite.dense_layers import acting_weights, dense_layers, run, trace

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(3, 4)).astype(np.float32)
X = jnp.array(RNG.normal(size=(1, 3)), jnp.float32)
EXAMPLE = jax.ShapeDtypeStruct((3,), jnp.float32)


def convolution(weight, x, **settings):
    result = lax.conv_general_dilated(
        x.reshape(1, 3, 1, 1), weight.reshape(3, 1, 1, 4), (1, 1), "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), **settings,
    )  # fmt: skip
    return result.reshape(1, 4)


def on_this_platform(weight, x):
    """Computed in one way on each; of others the factors differ, to tell which was taken."""
    return lax.platform_dependent(
        weight, cuda=lambda w: x @ (2 * w), cpu=lambda w: x @ (3 * w), default=lambda w: x @ (5 * w)
    )


# Each with the factor that its weight acts with.
DENSE = {
    "plain": (lambda w, x: x @ w, 1),
    "from the left": (lambda w, x: (w.T @ x.T).T, 1),
    "times a number": (lambda w, x: x @ (2 * w * 3), 6),
    "over a number": (lambda w, x: x @ (w / 4), 1 / 4),
    "rearranged": (lambda w, x: x @ (2 * w.reshape(12).reshape(3, 4).T).T, 2),
    "in a program of its own": (lambda w, x: jnp.tanh(jax.jit(jnp.matmul)(x, 0.5 * w)), 1 / 2),
    "by platform": (on_this_platform, 3),
    "convolution": (convolution, 1),
    "several positions": (lambda w, x: jnp.sum(jnp.tile(x, (5, 1)) @ w, 0)[None], 1),
}
OTHERS = {
    "added": lambda w, x: x @ w + w[:1],
    "divided by": lambda w, x: x @ (2 / w),
    "times numbers of its own": lambda w, x: x @ (w * np.arange(4.0)[None]),
    "squared": lambda w, x: x @ (w * w),
    "by batches": lambda w, x: jnp.einsum("ab,bc->bac", x, w)[0],
    "in one place with itself": lambda w, x: x @ w @ w.T,
    "an output": lambda w, x: w,
    "conditionally": lambda w, x: lax.cond(
        x[0, 0] > 0, jnp.matmul, lambda x, w: x[:, :1] - w[:1], x, w
    ),
}


def evaluated(apply):
    """Runs the program; returns the reports of dense layers and of others."""
    program, _ = trace(apply, WEIGHT, EXAMPLE)
    dense, others = [], []

    def note(scaled, data, weight, result):
        np.testing.assert_allclose(data @ weight, result, rtol=1e-4, atol=1e-5)
        dense.append((scaled, data, weight))
        return result

    (outputs,) = run(program, [jnp.array(WEIGHT)], X, note, others.append)
    np.testing.assert_allclose(outputs, apply(WEIGHT, X), rtol=1e-4, atol=1e-5)
    return dense, others


@pytest.mark.parametrize("name", DENSE)
def test_a_weight_in_one_product_with_data_is_a_dense_layer(name):
    apply, scale = DENSE[name]
    ((scaled, data, weight),), others = evaluated(apply)
    assert not others and scaled.leaf == 0 and scaled.scale == pytest.approx(scale)
    positions = 5 if name == "several positions" else 1
    np.testing.assert_allclose(data, np.tile(X, (positions, 1)), rtol=1e-6)
    np.testing.assert_allclose(weight, scale * WEIGHT, rtol=1e-6)
    (layer,), outputs = dense_layers(apply, WEIGHT, EXAMPLE)
    assert layer == (0, scaled.scale, positions, 3, 4) and outputs == 4
    acting = acting_weights(apply, WEIGHT, EXAMPLE)
    np.testing.assert_allclose(acting[0], scale * WEIGHT, rtol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_a_parameter_used_otherwise_is_none(name):
    _, others = evaluated(OTHERS[name])
    layers, _ = dense_layers(OTHERS[name], WEIGHT, EXAMPLE)
    assert layers == []
    assert others == [] or set(others) == {0}
