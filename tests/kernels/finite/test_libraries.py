"""The finite NTK takes networks of other libraries: one hidden layer, against its closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.kernels import empirical_ntk

INPUTS, HIDDEN, OUTPUTS = 4, 7, 3


def equinox(key):
    eqx = pytest.importorskip("equinox", reason="equinox is not installed")
    model = eqx.nn.MLP(INPUTS, OUTPUTS, HIDDEN, 1, activation=jnp.tanh, key=key)
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def apply(params, x):
        return jax.vmap(eqx.combine(params, static))(x)

    nothing = jax.tree.map(lambda _: False, params)
    selected = eqx.tree_at(lambda tree: tree.layers[1], nothing, True)
    return apply, params, selected, [(layer.weight.T, layer.bias) for layer in model.layers]


def haiku(key):
    hk = pytest.importorskip("haiku", reason="dm-haiku is not installed")

    def forward(x):
        return hk.nets.MLP([HIDDEN, OUTPUTS], activation=jnp.tanh, name="mlp")(x)

    transformed = hk.without_apply_rng(hk.transform(forward))
    params = transformed.init(key, jnp.ones((1, INPUTS)))
    names = ["mlp/~/linear_0", "mlp/~/linear_1"]
    selected = dict(zip(names, (False, True), strict=True))
    return transformed.apply, params, selected, [(params[n]["w"], params[n]["b"]) for n in names]


def closed_form(x1, x2, hidden, readout):
    """Mean over outputs of the kernel in all parameters, and in those of the readout alone."""
    (w1, b1), (w2, _) = ([np.asarray(part, float) for part in layer] for layer in (hidden, readout))
    first, second = (np.tanh(np.asarray(x, float) @ w1 + b1) for x in (x1, x2))
    last = first @ second.T + 1
    back = np.mean(w2**2, axis=1)
    return ((1 - first**2) * back) @ (1 - second**2).T * (x1 @ x2.T + 1) + last, last


@pytest.mark.parametrize("library", [equinox, haiku], ids=lambda build: build.__name__)
def test_the_kernel_of_another_librarys_network_is_its_closed_form(key, library):
    apply, params, selected, layers = library(key)
    x1, x2 = np.random.default_rng(0).normal(size=(2, 5, INPUTS)).astype(np.float32)

    @jax.jit
    def both(params, x1, x2):
        return [empirical_ntk(apply, params, x1, x2, selected=some) for some in (True, selected)]

    for ours, expected in zip(both(params, x1, x2), closed_form(x1, x2, *layers), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
