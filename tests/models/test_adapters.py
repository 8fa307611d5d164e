"""Networks of other libraries keep their outputs, and have finite kernels."""

import functools

import equinox
import haiku
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx

from lsa_jax import kernels, models, training
from lsa_jax.data import Dataset
from lsa_jax.errors import InputError
from lsa_jax.models import model as model_module
from lsa_jax.models.model import ExampleShape

X = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
TOKENS = np.random.default_rng(1).integers(0, 11, (5, 4))
PIXELS = np.random.default_rng(2).integers(0, 256, (5, 6), np.uint8)


def of_linen(call):
    """Returns a module with this `__call__`."""
    return models.from_flax_linen(type("Net", (linen.Module,), {"__call__": linen.compact(call)})())


def of_nnx(call, **parts):
    """Returns a module with this `__call__` and with parts that take random numbers."""

    def make(self, rngs):
        for name, part in parts.items():
            setattr(self, name, part(rngs))

    return models.from_nnx(type("Net", (nnx.Module,), {"__init__": make, "__call__": call}))


def of_equinox(call, **parts):
    def make(self, key):
        for name, part in parts.items():
            setattr(self, name, part(key))

    members = {"__annotations__": dict.fromkeys(parts, object), "__init__": make, "__call__": call}
    return models.from_equinox(type("Net", (equinox.Module,), members))


def an_nnx(rngs):
    return nnx.Linear(6, 3, rngs=rngs)


def an_nnx_dropout(rngs):
    return nnx.Dropout(0.5, rngs=rngs)


def an_equinox(key):
    return equinox.nn.Linear(6, 3, key=key)


class Tied(nnx.Module):
    def __init__(self, *, rngs):
        self.dense, self.ones = an_nnx(rngs), jnp.ones((1, 3))
        self.same = self.dense

    def __call__(self, x):
        return self.ones * (self.dense(x) + self.same(x)) / 2


# Networks of one dense layer, whatever surrounds it: in evaluation all are x w + b.
DENSE = {
    "linen, train": lambda: of_linen(
        lambda self, x, train: linen.Dropout(0.5, deterministic=not train)(linen.Dense(3)(x))
    ),
    "nnx, dropout on": lambda: of_nnx(
        lambda self, x: self.masks(self.dense(x)), masks=an_nnx_dropout, dense=an_nnx
    ),
    "nnx, one layer under two names": lambda: models.from_nnx(Tied),
    "equinox, inference": lambda: of_equinox(
        lambda self, x, inference, key: self.masks(self.dense(x), key=key, inference=inference),
        dense=an_equinox,
        masks=lambda key: equinox.nn.Dropout(0.5),
    ),
    "haiku, is_training": lambda: models.from_haiku(
        lambda x, is_training: (
            haiku.dropout(haiku.next_rng_key(), 0.5, haiku.Linear(3)(x))
            if is_training
            else haiku.Linear(3)(x)
        )
    ),
}

WITHOUT_MASKS = ("nnx, one layer under two names",)

# Networks of one embedding, averaged over positions, and one dense layer.
EMBEDDED = {
    "linen": lambda: of_linen(lambda self, t: linen.Dense(3)(linen.Embed(11, 6)(t).mean(1))),
    "nnx": lambda: of_nnx(
        lambda self, t: self.dense(self.embed(t).mean(1)),
        dense=an_nnx,
        embed=lambda rngs: nnx.Embed(11, 6, rngs=rngs),
    ),
    "equinox": lambda: of_equinox(
        lambda self, t: self.dense(jax.vmap(self.embed)(t).mean(0)),
        dense=an_equinox,
        embed=lambda key: equinox.nn.Embedding(11, 6, key=key),
    ),
    "haiku": lambda: models.from_haiku(lambda t: haiku.Linear(3)(haiku.Embed(11, 6)(t).mean(1))),
}


def by_shape(params):
    """Returns the leaves of a network by shape; weights are [in, out]."""
    leaves = {leaf.shape: np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(params)}
    return leaves | ({(6, 3): leaves[(3, 6)].T} if (3, 6) in leaves else {})


@pytest.mark.parametrize("name", DENSE)
def test_a_dense_layer_of_another_library_is_evaluated_as_x_w_plus_b(name):
    model, key = DENSE[name](), jax.random.key(0)
    params = model.init(key, X.shape[1:])
    weight = by_shape(params)[6, 3]
    assert (by_shape(model.init(jax.random.key(1), (6,)))[6, 3] != weight).any()
    params = jax.tree.map(lambda leaf: leaf + 0.5, params)  # biases start at 0
    weight, bias = by_shape(params)[6, 3], by_shape(params)[3,]
    loose = {"rtol": 1e-5, "atol": 1e-5}
    for inputs in (X, X.astype(np.float64), jnp.asarray(X, jnp.bfloat16), X > 0, PIXELS):
        if inputs is PIXELS and "haiku" in name:
            continue  # whose layers make parameters of the inputs' type, so that init refuses them
        outputs = model.apply(params, inputs)
        expected = np.asarray(inputs, np.float64) @ weight + bias
        np.testing.assert_allclose(outputs, expected, **loose)
        assert outputs.dtype == jnp.float32
    np.testing.assert_allclose(kernels.empirical_ntk(model.apply, params, X), X @ X.T + 1, **loose)
    moved = jax.tree.map(lambda leaf: leaf + 0.1, params)  # the network is its linearisation
    linearized = kernels.linearize(model.apply, params)(moved, X)
    np.testing.assert_allclose(linearized, model.apply(moved, X), **loose)


@pytest.mark.parametrize("library", EMBEDDED)
def test_tokens_stay_whole_numbers(library):
    model, key = EMBEDDED[library](), jax.random.key(0)
    with pytest.raises(InputError, match="tokens"):
        model.init(key, TOKENS.shape[1:])
    example = jax.ShapeDtypeStruct(TOKENS.shape[1:], TOKENS.dtype)
    params = model.init(key, example)
    for same in (TOKENS[0], ExampleShape.of(TOKENS)):
        assert jax.tree.all(jax.tree.map(np.array_equal, params, model.init(key, same)))
    leaves = by_shape(params)
    hidden = leaves[11, 6][TOKENS].mean(1)
    expected = hidden @ leaves[6, 3] + leaves[3,]
    np.testing.assert_allclose(model.apply(params, TOKENS), expected, rtol=1e-5, atol=1e-6)
    counts = (TOKENS[..., None] == np.arange(11)).mean(1)
    ntk = hidden @ hidden.T + 1 + counts @ counts.T * np.square(leaves[6, 3]).sum() / 3
    kernel = kernels.finite_kernel(model.apply, params)
    np.testing.assert_allclose(kernels.gram(kernel, TOKENS), ntk, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in DENSE if name not in WITHOUT_MASKS])
def test_masks_are_drawn_in_training_alone(name):
    model = DENSE[name]()
    params = jax.tree.map(lambda leaf: leaf + 0.5, model.init(jax.random.key(0), (6,)))
    kept = np.asarray(model.apply(params, X))
    keys = jax.random.split(jax.random.key(1), 400)
    drawn = np.asarray(jax.vmap(lambda key: model.apply(params, X, key))(keys))
    zero = np.isclose(drawn, 0, atol=1e-6)
    np.testing.assert_allclose(drawn, np.where(zero, 0, 2 * kept), rtol=1e-5, atol=1e-5)
    # 15 entries of 400 masks each: five standard deviations of a share of one half.
    np.testing.assert_allclose(zero.mean(0), 0.5, atol=5 * 0.5 / 400**0.5)


def an_nnx_norm(rngs):
    return nnx.BatchNorm(6, use_scale=False, use_bias=False, momentum=0.9, rngs=rngs)


def norm_over(axis):
    given = {"mode": "batch", "momentum": 0.9, "channelwise_affine": False}
    return lambda key: equinox.nn.BatchNorm(6, axis, **given)


def linen_norm(self, x, train):
    norm = linen.BatchNorm(not train, momentum=0.9, use_scale=False, use_bias=False)
    return linen.Dense(3)(linen.Dropout(0.0)(norm(x), deterministic=not train))


def equinox_norm(self, x, state, key=None):
    x, state = self.norm(x, state)
    return self.dense(x), state


# Networks of a batch normalisation without scale and shift, and one dense layer.
NORMALISED = {
    "linen": lambda: of_linen(linen_norm),
    "nnx": lambda: of_nnx(lambda self, x: self.dense(self.norm(x)), norm=an_nnx_norm, dense=an_nnx),
    "equinox": lambda: of_equinox(equinox_norm, norm=norm_over("batch"), dense=an_equinox),
    "haiku": lambda: models.from_haiku(
        lambda x, is_training: haiku.Linear(3)(
            haiku.BatchNorm(create_scale=False, create_offset=False, decay_rate=0.9)(x, is_training)
        )
    ),
}


@pytest.mark.parametrize("name", NORMALISED)
def test_batch_normalisation_trains_with_the_batch_and_evaluates_with_running_statistics(name):
    model, key = NORMALISED[name](), jax.random.key(0)
    x = 2 * X + 3
    params = model.init(key, (6,))
    state = model_module.state_names(model, params, x)
    assert len(state) == 1 and set(params) == {"params", *state}
    standard = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    tree = by_shape(params["params"])
    expected = standard @ tree[6, 3] + tree[3,]
    np.testing.assert_allclose(model.apply(params, x, key), expected, rtol=1e-4, atol=1e-4)
    # At a rate of 0 the statistics alone move: in 120 steps to those of the only batch.
    targets = jnp.eye(3)[jnp.arange(5) % 3]
    given = {"epochs": 120, "batch_size": 5}
    data, loss = Dataset(x, targets), training.squared_error
    kept, _ = training.train(key, model, data, loss, optax.sgd(0.0), **given)
    tree = by_shape(kept["params"])
    expected = standard @ tree[6, 3] + tree[3,]
    np.testing.assert_allclose(model.apply(kept, x), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(model.apply(kept, x[:1]), expected[:1], rtol=1e-3, atol=1e-3)
    # The kernel has no derivative with respect to the statistics, counters among them.
    ntk = kernels.empirical_ntk(model.apply, kept, x)
    np.testing.assert_allclose(ntk, standard @ standard.T + 1, rtol=1e-3, atol=1e-3)
    if name != "linen":  # trained alike, once they are converted
        return
    keys, given["epochs"] = jax.random.split(key), 20
    _, history = training.train(keys, model, data, loss, optax.sgd(1e-2), **given)
    assert (history.rows[-1]["batch_loss"] < history.rows[0]["batch_loss"]).all()


def growing(self, x):
    seen = self.variable("seen", "rows", jnp.zeros, (0, 3))
    y = linen.Dense(3)(x)
    if self.is_mutable_collection("seen") and not self.is_initializing():
        seen.value = jnp.concatenate([seen.value, y])
    return y + self.variable("seen", "count", jnp.zeros, ()).value


def haiku_mlp(x):
    return haiku.nets.MLP([5, 3])(x)


# Networks that are refused, and a word of the message.
REFUSED = {
    "linen, class": (lambda: models.from_flax_linen(linen.Dense), "module"),
    "linen, no running averages": (
        lambda: of_linen(lambda self, x: linen.BatchNorm(use_running_average=False)(x)[:, :3]),
        "use_running_average=not train",
    ),
    "linen, state that grows": (lambda: of_linen(growing), "change their shapes"),
    "nnx, other inputs": (
        lambda: models.from_nnx(functools.partial(nnx.Linear, 7, 3)),
        r"float32 \(1, 6\)",
    ),
    "equinox, instance": (lambda: models.from_equinox(an_equinox(jax.random.key(0))), "lambda key"),
    "equinox, batches": (
        lambda: of_equinox(lambda self, x: jax.vmap(self.dense)(x), dense=an_equinox),
        "one example",
    ),
    "haiku, transformed": (lambda: models.from_haiku(haiku.transform(haiku_mlp)), "function"),
    "equinox, two axes": (lambda: of_equinox(None, one=norm_over("a"), two=norm_over("b")), "a, b"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_network_of_parameters_alone_costs_a_line_with_the_way_out(name):
    make, word = REFUSED[name]
    with pytest.raises(InputError, match=word) as refused:
        make().init(jax.random.key(0), (6,))
    assert "\n" not in str(refused.value) and "accepted: " in str(refused.value)
