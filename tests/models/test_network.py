"""Networks against loops in numpy; one hidden layer's mean kernel is the infinite one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import convolved

from lsa_jax import kernels
from lsa_jax.models import cnn, wide_resnet


def batch_norm(x, params):
    axes = tuple(range(x.ndim - 1))
    normed = (x - x.mean(axes)) / np.sqrt(x.var(axes) + 1e-5)
    return normed * params["scale"] + params["shift"]


def relu(x):
    return np.maximum(x, 0)


def forward_cnn(params, x):
    for name in ("Conv_0", "Conv_1"):
        x = relu(convolved(x, params[name]["weight"], (2, 2), "VALID") + params[name]["bias"])
    return x.reshape(len(x), -1) @ params["Dense_0"]["weight"] + params["Dense_0"]["bias"]


def forward_wide_resnet(params, x):
    x = convolved(x, params["Conv_0"]["weight"], (1, 1), "SAME")
    for group, stride in enumerate((1, 2, 2)):
        branch = params[f"Residual_{group}"]["branch"]
        shortcut = params[f"Residual_{group}"]["shortcut"]
        y = relu(batch_norm(x, branch["BatchNorm_0"]))
        y = convolved(y, branch["Conv_0"]["weight"], (stride, stride), "SAME")
        y = relu(batch_norm(y, branch["BatchNorm_1"]))
        y = convolved(y, branch["Conv_1"]["weight"], (1, 1), "SAME")
        x = y + convolved(x, shortcut["Conv_0"]["weight"], (stride, stride), "SAME")
    x = relu(batch_norm(x, params["BatchNorm_0"])).mean(axis=(1, 2))
    return x @ params["Dense_0"]["weight"]


def to_standard(params, w_std, b_std):
    """Folds the factors of the "ntk" parameterisation into its parameters, layer by layer."""
    folded, std = {}, {"Conv_0": w_std, "Conv_1": w_std, "Dense_0": 1.0}
    for name, layer in params.items():
        fan_in = np.prod(layer["weight"].shape[:-1])
        folded[name] = {
            "weight": std[name] / np.sqrt(fan_in) * layer["weight"],
            "bias": b_std * layer["bias"],
        }
    return folded


def as_float64(params):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)


def test_cnn_equals_explicit_loops_in_both_parameterizations(key):
    x = jax.random.normal(key, (3, 7, 8, 2))
    ntk = cnn(2, 3, parameterization="ntk", w_std=1.7, b_std=0.4)
    standard = cnn(2, 3, parameterization="standard", w_std=1.7, b_std=0.4)
    params = ntk.init(key, x.shape[1:])
    folded = to_standard(as_float64(params), 1.7, 0.4)
    expected = forward_cnn(folded, np.asarray(x, np.float64))
    np.testing.assert_allclose(ntk.apply(params, x), expected, atol=1e-5)
    np.testing.assert_allclose(standard.apply(folded, x), expected, atol=1e-5)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-5), standard.init(key, x.shape[1:]), folded
    )


def test_wide_resnet_equals_explicit_loops(key):
    x = jax.random.normal(key, (3, 5, 4, 2))
    model = wide_resnet(1, 3, parameterization="standard")
    params = jax.jit(model.init, static_argnums=1)(key, x.shape[1:])
    # Scale and shift start at 1 and 0; move them, so that a wrong use of them shows.
    params = jax.tree.map(lambda p: p + 0.2 * np.cos(np.arange(p.size)).reshape(p.shape), params)
    expected = forward_wide_resnet(as_float64(params), np.asarray(x, np.float64))
    np.testing.assert_allclose(jax.jit(model.apply)(params, x), expected, atol=1e-3)


def empirical_ntk(model, params, x):
    """Mean over outputs of the Jacobian's Gram matrix, by the definition."""
    jacobian = jax.jacrev(model.apply)(params, x)
    rows = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(jacobian)]
    return sum(jnp.einsum("acp,bcp->ab", row, row) for row in rows) / rows[0].shape[1]


@pytest.mark.parametrize("axis", [None, "batch"])
def test_with_the_statistics_of_a_batch_each_example_is_by_itself_and_has_an_ntk(axis, key):
    """Outputs of the batch stay the same; the kernel is the product of Jacobians at them."""
    model = wide_resnet(1, 3, batch_axis=axis)
    params, inputs = model.init(key, (8, 8, 2)), jax.random.normal(key, (6, 8, 8, 2))
    apply = partial(model.apply, statistics=model.statistics(params, inputs))
    outputs = apply(params, inputs)
    in_batch = wide_resnet(1, 3).apply(params, inputs)
    np.testing.assert_allclose(outputs, in_batch, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(apply(params, inputs[:2]), outputs[:2], rtol=1e-4, atol=1e-5)
    kernel = kernels.finite_kernel(apply, params)(inputs)
    expected = empirical_ntk(model._replace(apply=apply), params, inputs)
    np.testing.assert_allclose(kernel, expected, rtol=2e-4, atol=1e-4 * expected.max())
    assert model.statistics and wide_resnet(1, 3, norm="none").statistics is None
