"""Networks of any library are recognised by their type."""

import functools

import jax
import numpy as np
import pytest
from flax import linen, nnx

from lsa_jax import models
from lsa_jax.errors import InputError
from lsa_jax.models.any_library import as_model, params_of

equinox = pytest.importorskip("equinox")
X = np.ones((3, 4), np.float32)


class Linen(linen.Module):
    width: int = 5

    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(linen.relu(linen.Dense(self.width)(x)))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.layer(x)


class Equinox(equinox.Module):
    layer: equinox.nn.Linear

    def __init__(self, key):
        self.layer = equinox.nn.Linear(4, 2, key=key)

    def __call__(self, x):
        return self.layer(x)


def make_nnx(rngs):
    return Nnx(rngs)


NETWORKS = {
    "model": models.mlp(widths=(5,), num_classes=2),
    "functions": (
        lambda key, shape: {"w": jax.random.normal(key, (4, 2))},
        lambda p, x: x @ p["w"],
    ),
    "linen instance": Linen(),
    "linen class": Linen,
    "nnx class": Nnx,
    "nnx factory": make_nnx,
    "nnx instance": Nnx(nnx.Rngs(0)),
    "equinox class": Equinox,
    "equinox factory": lambda key: Equinox(key),
    "equinox instance": Equinox(jax.random.key(0)),
    "factory of a linen module": lambda: Linen(7),
    "part of a factory": functools.partial(lambda other, rngs: Nnx(rngs), 3),
    "part of a class": functools.partial(equinox.nn.MLP, 4, 2, 5, 1),
    "factory of a model": lambda: models.mlp(widths=(5,), num_classes=2),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_any_network_is_drawn_and_run(name):
    model = as_model(NETWORKS[name])
    params = [model.init(jax.random.key(seed), (4,)) for seed in (0, 1)]
    assert model.apply(params[0], X).shape == (3, 2)
    same = all(map(np.array_equal, *map(jax.tree.leaves, params)))
    assert same == (name in ("nnx instance", "equinox instance"))  # which start every seed


def test_trained_modules_are_parameters():
    linen_net, key = Linen(), jax.random.key(3)
    variables = linen_net.init(key, X)
    for network, trained, outputs in (
        (linen_net, variables, linen_net.apply(variables, X)),
        (linen_net, variables["params"], linen_net.apply(variables, X)),
        (Nnx, Nnx(nnx.Rngs(3)), Nnx(nnx.Rngs(3))(X)),
        (Equinox, Equinox(key), jax.vmap(Equinox(key))(X)),
    ):
        model = as_model(network)
        params = params_of(model, trained, (4,))
        np.testing.assert_allclose(model.apply(params, X), outputs, rtol=1e-6)
    for other in ({"w": X}, Nnx(nnx.Rngs(0)), linen.Dense(2).init(key, X)):
        with pytest.raises(InputError, match="params has .*accepted"):
            params_of(as_model(linen_net), other, (4,))


class Needy(linen.Module):
    width: int

    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    "network", [3, "net", dict, Needy, lambda x: x, lambda: 1 / 0, (Linen(), 3)]
)
def test_what_is_no_network_costs_one_line(network):
    with pytest.raises(InputError, match="^model is .*accepted") as error:
        as_model(network)
    assert "\n" not in str(error.value)
