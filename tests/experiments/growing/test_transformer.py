"""Transformers in stacks: visible positions, logits by hand, initialisation."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.growing.transformer import TRANSFORMERS, Sizes, decoder

SIZES = Sizes(vocabulary_size=20, length=6, width=8, heads=2, hidden=12, init_std=0.3)


compiled = functools.cache(lambda model: jax.jit(model.apply))


def run(model, params, tokens, prefix=0):
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    return compiled(model)(params, tokens, jnp.full(len(tokens), prefix), positions)


@pytest.fixture(scope="module")
def tokens():
    return jax.random.randint(jax.random.key(1), (2, 6), 0, 20)


@pytest.fixture(scope="module", params=sorted(TRANSFORMERS))
def kind(request):
    model = TRANSFORMERS[request.param](SIZES)
    return request.param, model, model.init(jax.random.key(0), 3)


def changed_positions(model, params, tokens, place, prefix):
    """Returns where the logits change when the token at a place does."""
    other = tokens.at[:, place].set((tokens[:, place] + 1) % 20)
    difference = run(model, params, tokens, prefix) - run(model, params, other, prefix)
    return np.flatnonzero(np.abs(np.asarray(difference)).max(axis=(0, 2)) > 1e-6).tolist()


def test_encoders_see_all_and_decoders_the_past_and_their_prefix(kind, tokens):
    name, model, params = kind
    seen = [changed_positions(model, params, tokens, place, 3) for place in (1, 2, 3, 4)]
    everywhere = list(range(6))
    past = [everywhere, everywhere, [3, 4, 5], [4, 5]]
    assert seen == ([everywhere] * 4 if name == "encoder" else past)
    if name == "decoder":
        assert changed_positions(model, params, tokens, 1, 0) == [1, 2, 3, 4, 5]


def _attended(x, layer, prefix):
    """One head, position and position that it sees after the other; rotary with a prefix."""
    b, n, d = x.shape
    qkv = (x @ layer["qkv"] + layer.get("qkv_bias", 0)).reshape(b, n, 3, 2, d // 2)
    out = np.zeros((b, n, 2, d // 2))
    for head in range(2):
        query, key, value = (qkv[:, :, kind, head] for kind in range(3))
        if prefix is not None:
            # Entries j and j + e/2 as one complex number, turned by t base^(-2j/e).
            turns = np.exp(1j * np.arange(n)[:, None] * 10_000.0 ** (-np.arange(d // 4) / (d // 4)))
            query, key = ((v[..., : d // 4] + 1j * v[..., d // 4 :]) * turns for v in (query, key))
        for i in range(n):
            seen = [j for j in range(n) if prefix is None or j <= i or max(i, j) < prefix]
            scores = np.real(np.einsum("be,bje->bj", query[:, i].conj(), key[:, seen]))
            weights = np.exp(scores / (d // 2) ** 0.5)
            weights /= weights.sum(axis=1, keepdims=True)
            out[:, i, head] = np.einsum("bj,bje->be", weights, value[:, seen])
    return out.reshape(b, n, d)


def _normed(x, scale, bias):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True)) * scale + bias


def _scaled(x, scale):
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True)) * scale


def _gelu(x):
    return x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def _encoder_by_hand(params, tokens, prefix):
    x = params["tokens"][tokens] + params["positions"][: tokens.shape[1]]
    x = _normed(x, params["input_scale"], params["input_bias"])
    for place in range(2):
        layer = {name: of[place] for name, of in params["layers"].items()}
        x = x + _attended(x, layer, None) @ layer["out"] + layer["out_bias"]
        x = _normed(x, layer["norm1_scale"], layer["norm1_bias"])
        x = x + _gelu(x @ layer["up"] + layer["up_bias"]) @ layer["down"] + layer["down_bias"]
        x = _normed(x, layer["norm2_scale"], layer["norm2_bias"])
    x = _gelu(x @ params["transform"] + params["transform_bias"])
    x = _normed(x, params["output_scale"], params["output_bias"])
    return x @ params["tokens"].T + params["token_bias"]


def _decoder_by_hand(params, tokens, prefix):
    x = params["tokens"][tokens]
    for place in range(2):
        layer = {name: of[place] for name, of in params["layers"].items()}
        x = x + _attended(_scaled(x, layer["norm1_scale"]), layer, prefix) @ layer["out"]
        normal = _scaled(x, layer["norm2_scale"])
        gate = normal @ layer["gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (normal @ layer["up"])) @ layer["down"]
    return _scaled(x, params["output_scale"]) @ params["tokens"].T


@pytest.mark.parametrize("name", sorted(TRANSFORMERS))
def test_logits_are_those_of_the_layers_written_as_loops(tokens, name):
    model = TRANSFORMERS[name](SIZES)

    @jax.jit
    def draw(key):
        leaves, tree = jax.tree.flatten(model.init(key, 2))
        keys = jax.random.split(key, len(leaves))
        drawn = [a + 0.3 * jax.random.normal(k, a.shape) for a, k in zip(leaves, keys, strict=True)]
        params = tree.unflatten(drawn)
        return params, run(model, params, tokens, 3)

    params, logits = draw(jax.random.key(2))
    by_hand = {"encoder": _encoder_by_hand, "decoder": _decoder_by_hand}[name]
    expected = by_hand(jax.tree.map(np.float64, params), np.asarray(tokens), 3)
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-4)


def test_bfloat16_and_remat_change_the_numbers_little(kind, tokens):
    name, model, params = kind
    other = TRANSFORMERS[name](SIZES._replace(dtype="bfloat16", remat=True))
    exact, rough = run(model, params, tokens), run(other, params, tokens)
    assert rough.dtype == jnp.float32
    assert 0 < float(jnp.abs(exact - rough).max()) < 0.1 * float(jnp.abs(exact).max())


def test_the_ul2_decoder_has_the_thesis_number_of_parameters():
    model = decoder(Sizes(256_000, 1280, 2048, 32, 5120))
    shapes = jax.eval_shape(lambda key: model.init(key, 12), jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == pytest.approx(1.1e9, rel=0.01)


def test_biases_start_at_zero_scales_at_one_and_weights_at_their_deviation(kind):
    _, _, params = kind
    drawn = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = path[-1].key
        if name.endswith("bias"):
            assert not np.any(leaf), name
        elif name.endswith("scale"):
            assert np.all(leaf == 1), name
        else:
            drawn.append(np.ravel(leaf))
            assert drawn[-1].std() == pytest.approx(0.3, rel=5 / (2 * leaf.size) ** 0.5), name
            assert abs(drawn[-1].mean()) < 5 * 0.3 / leaf.size**0.5, name
    values = np.concatenate(drawn)
    assert len(np.unique(values)) > 0.99 * values.size  # each matrix and layer is a draw of its own
