"""Networks of other libraries compute what they do there, and have the kernels of our own."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels, models
from lsa_jax.errors import InputError

SHAPE = (6,)


def linen():
    from flax import linen as nn

    return nn.Sequential([nn.Dense(5), nn.relu, nn.Dense(3)])


def of_linen():
    return models.from_flax_linen(linen())


def of_nnx():
    from flax import nnx

    return models.from_nnx(
        lambda rngs: nnx.Sequential(
            nnx.Linear(6, 5, rngs=rngs), jax.nn.relu, nnx.Linear(5, 3, rngs=rngs)
        )
    )


def of_equinox():
    equinox = pytest.importorskip("equinox")
    return models.from_equinox(lambda key: equinox.nn.MLP(6, 3, 5, 1, key=key))


def of_haiku():
    haiku = pytest.importorskip("haiku")
    return models.from_haiku(lambda x: haiku.nets.MLP([5, 3])(x))


def in_order(params):
    """Returns (weight [in, out], bias) of both layers of a network of 6, 5 and 3 neurons."""
    leaves = {leaf.shape: np.asarray(leaf) for leaf in jax.tree.leaves(params)}
    pairs = (((6, 5), (5,)), ((5, 3), (3,)))
    return [(leaves.get(w, leaves.get(w[::-1], np.empty(0)).T), leaves[b]) for w, b in pairs]


@pytest.mark.parametrize("make", [of_linen, of_nnx, of_equinox, of_haiku])
def test_a_network_of_another_library_is_that_of_its_weights_and_has_its_kernel(make):
    model, key = make(), jax.random.key(0)
    params = model.init(key, SHAPE)
    other = model.init(jax.random.key(1), SHAPE)
    assert any(
        (a != b).any() for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(other), strict=True)
    )
    x = jax.random.normal(jax.random.key(2), (4, *SHAPE))
    (w1, b1), (w2, b2) = in_order(params)
    hidden = np.maximum(np.asarray(x) @ w1 + b1, 0)
    np.testing.assert_allclose(model.apply(params, x), hidden @ w2 + b2, atol=1e-5)
    # The NTK of these formulas, averaged over outputs: of each layer's weights and biases.
    gates = (hidden > 0)[:, None] * w2.T[None]  # [n, 3, 5]
    of_gates = np.einsum("nck,mck->nm", gates, gates) / 3
    expected = hidden @ hidden.T + 1 + of_gates * (np.asarray(x) @ np.asarray(x).T + 1)
    actual = kernels.empirical_ntk(model.apply, params, x)
    np.testing.assert_allclose(actual, expected, rtol=1e-4)


def test_networks_with_state_beside_their_parameters_are_refused():
    from flax import linen as nn
    from flax import nnx

    with pytest.raises(InputError, match="keeps batch_stats beside its parameters"):
        models.from_flax_linen(nn.BatchNorm(use_running_average=True)).init(
            jax.random.key(0), SHAPE
        )
    with pytest.raises(InputError, match="keeps BatchStat beside its parameters"):
        models.from_nnx(lambda rngs: nnx.BatchNorm(6, rngs=rngs)).init(jax.random.key(0), SHAPE)


def test_a_library_that_is_missing_is_named_with_what_installs_it(monkeypatch):
    if importlib.util.find_spec("haiku"):
        monkeypatch.setitem(__import__("sys").modules, "haiku", None)
    with pytest.raises(InputError, match="haiku is not installed; pip install dm-haiku"):
        models.from_haiku(jnp.sin)
