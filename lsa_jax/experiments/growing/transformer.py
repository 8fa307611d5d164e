"""Transformers of any size whose layers lie in one stack, parameters [layers, ...].

`encoder` is BERT's: normalised after each sublayer, GELU, learned positions, a transformed and tied
output. `decoder` is the kind that UL2 trains: normalised before each sublayer (root mean square),
gated feed-forward, rotary positions, tied output, and a prefix that may look both ways.

As the layers lie in one stack, a deeper network's parameters are a gather from a shallower one's.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

Params = dict[str, Any]
Vectors = Float[Array, "b n d"]

_LAYER_NORM_EPSILON = 1e-12  # BERT's
_RMS_NORM_EPSILON = 1e-6
_ROTARY_BASE = 10_000.0


class Sizes(NamedTuple):
    """The sizes of a Transformer."""

    vocabulary_size: int  # tokens, and outputs of a position
    length: int  # positions of a sequence
    width: int  # of a position's vector between layers
    heads: int  # attention heads; each has width / heads entries
    hidden: int  # width inside the feed-forward part
    init_std: float = 0.02  # standard deviation of all weights at initialisation
    # or "bfloat16", of the layers; parameters, norms and outputs are float32
    dtype: str = "float32"
    # whether layers (and, in the loss, logits) are computed again for the gradient
    remat: bool = False


class Transformer(NamedTuple):
    """Pure functions of one kind of Transformer."""

    # `(key, num_layers) -> params`; params["layers"] has a leading axis of layers, which
    # gives their number everywhere else
    init: Callable[[Key[Array, ""], int], Params]
    # `(params, tokens [b, n], prefix [b], positions [b, p]) -> vectors [b, p, width]` at
    # these positions. Tokens before `prefix` are seen from every position of the prefix, the
    # others only from later ones; the encoder sees everything
    read: Callable[[Params, Array, Array, Array], Array]
    answer: Callable[[Params, Array], Array]  # `(params, vectors) -> logits [b, p, vocabulary]`

    def apply(
        self,
        params: Params,
        tokens: Int[Array, "b n"],
        prefix: Int[Array, " b"],
        positions: Int[Array, "b p"],
    ) -> Float[Array, "b p vocabulary"]:
        """Returns the logits at these positions."""
        return self.answer(params, self.read(params, tokens, prefix, positions))


def _normal(key: Key[Array, ""], name: int, shape: tuple[int, ...], std: float) -> Array:
    return std * jax.random.normal(jax.random.fold_in(key, name), shape)


def _init_layers(
    key: Key[Array, ""], num_layers: int, shapes: dict[str, tuple[int, int]], sizes: Sizes
) -> Params:
    """Returns all layers' matrices and the scales of both norms."""
    layers = {
        name: _normal(key, place, (num_layers, *shape), sizes.init_std)
        for place, (name, shape) in enumerate(shapes.items())
    }
    return layers | {f"norm{i}_scale": jnp.ones((num_layers, sizes.width)) for i in (1, 2)}


def _layer_norm(x: Vectors, scale: Float[Array, " d"], bias: Float[Array, " d"]) -> Vectors:
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.var(wide, axis=-1, keepdims=True)
    unit = (wide - mean) * lax.rsqrt(variance + _LAYER_NORM_EPSILON)
    return (unit * scale[None, None] + bias[None, None]).astype(x.dtype)


def _rms_norm(x: Vectors, scale: Float[Array, " d"]) -> Vectors:
    wide = x.astype(jnp.float32)
    square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    return (wide * lax.rsqrt(square + _RMS_NORM_EPSILON) * scale[None, None]).astype(x.dtype)


def rotate(x: Float[Array, "b n h e"]) -> Float[Array, "b n h e"]:
    """Turns each pair of entries (j, j + e / 2) of position t by the angle t base^(-2j/e).

    Inner products of turned queries and keys depend on positions only by their difference.

    Source: Su et al. (2021), RoFormer.
    """
    length, half = x.shape[1], x.shape[3] // 2
    rates = _ROTARY_BASE ** (-jnp.arange(half) / half)
    angles = jnp.arange(length)[:, None] * rates[None]
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    first, second = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def prefix_mask(prefix: Int[Array, " b"], length: int) -> Array:
    """Returns whether position i (third axis) sees position j (fourth): [b, 1, n, n]."""
    place = jnp.arange(length)
    causal = (place[:, None] >= place[None])[None]
    inside = place[None] < prefix[:, None]
    return (causal | (inside[:, :, None] & inside[:, None, :]))[:, None]


def _attend(x: Vectors, layer: Params, sizes: Sizes, mask: Array | None) -> Vectors:
    """Returns attention's output before the last projection; rotary where there is a mask."""
    b, n, d = x.shape
    qkv = jnp.einsum("bnd,de->bne", x, layer["qkv"].astype(x.dtype))
    if "qkv_bias" in layer:
        qkv += layer["qkv_bias"].astype(x.dtype)[None, None]
    shape = (b, n, 3, sizes.heads, d // sizes.heads)
    query, key, value = jnp.moveaxis(qkv.reshape(shape), 2, 0)
    if mask is not None:
        query, key = rotate(query), rotate(key)
    return jax.nn.dot_product_attention(query, key, value, mask=mask).reshape(b, n, d)


def _project(x: Vectors, layer: Params, name: str) -> Float[Array, "b n e"]:
    out = jnp.einsum("bnd,de->bne", x, layer[name].astype(x.dtype))
    if f"{name}_bias" in layer:
        out += layer[f"{name}_bias"].astype(x.dtype)[None, None]
    return out


def _run_layers(
    block: Callable[[Array, Params], Array], x: Vectors, layers: Params, sizes: Sizes
) -> Vectors:
    block = jax.checkpoint(block) if sizes.remat else block
    return lax.scan(lambda x, layer: (block(x, layer), None), x.astype(sizes.dtype), layers)[0]


def _at(x: Vectors, positions: Int[Array, "b p"]) -> Float[Array, "b p d"]:
    return jnp.take_along_axis(x, positions[:, :, None], axis=1)


def _tied_logits(x: Float[Array, "b p d"], embedding: Float[Array, "v d"]) -> Float[Array, "b p v"]:
    return jnp.einsum(
        "bpd,vd->bpv", x, embedding.astype(x.dtype), preferred_element_type=jnp.float32
    )


def encoder(sizes: Sizes) -> Transformer:
    """Returns BERT's encoder (Devlin et al., 2018), without segments and dropout."""
    d, f, std = sizes.width, sizes.hidden, sizes.init_std

    def init(key: Key[Array, ""], num_layers: int) -> Params:
        shapes = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, f), "down": (f, d)}
        layers = _init_layers(key, num_layers, shapes, sizes)
        layers |= {f"{n}_bias": jnp.zeros((num_layers, shape[1])) for n, shape in shapes.items()}
        layers |= {f"norm{i}_bias": jnp.zeros((num_layers, d)) for i in (1, 2)}
        return {
            "tokens": _normal(key, 10, (sizes.vocabulary_size, d), std),
            "positions": _normal(key, 11, (sizes.length, d), std),
            "input_scale": jnp.ones(d),
            "input_bias": jnp.zeros(d),
            "layers": layers,
            "transform": _normal(key, 12, (d, d), std),
            "transform_bias": jnp.zeros(d),
            "output_scale": jnp.ones(d),
            "output_bias": jnp.zeros(d),
            "token_bias": jnp.zeros(sizes.vocabulary_size),
        }

    def block(x: Array, layer: Params) -> Array:
        x += _project(_attend(x, layer, sizes, None), layer, "out")
        x = _layer_norm(x, layer["norm1_scale"], layer["norm1_bias"])
        x += _project(jax.nn.gelu(_project(x, layer, "up")), layer, "down")
        return _layer_norm(x, layer["norm2_scale"], layer["norm2_bias"])

    def read(params: Params, tokens: Array, prefix: Array, positions: Array) -> Array:
        del prefix
        x = params["tokens"][tokens] + params["positions"][None, : tokens.shape[1]]
        x = _layer_norm(x, params["input_scale"], params["input_bias"])
        return _at(_run_layers(block, x, params["layers"], sizes), positions)

    def answer(params: Params, x: Array) -> Array:
        x = jax.nn.gelu(_project(x, params, "transform"))
        x = _layer_norm(x, params["output_scale"], params["output_bias"])
        return _tied_logits(x, params["tokens"]) + params["token_bias"][None, None]

    return Transformer(init, read, answer)


def decoder(sizes: Sizes) -> Transformer:
    """Returns a decoder whose prefix looks both ways; a prefix of 0 is a causal language model.

    Source: Tay et al. (2022) for the prefix; the layers (root mean square norm, SwiGLU, rotary
    positions, no biases) are our choice, and make up the 1.1 billion parameters of Karp (thesis,
    2024), appendix C.1.2, with a vocabulary of 256,000.
    """
    d, f, std = sizes.width, sizes.hidden, sizes.init_std

    def init(key: Key[Array, ""], num_layers: int) -> Params:
        shapes = {"qkv": (d, 3 * d), "out": (d, d), "gate": (d, f), "up": (d, f), "down": (f, d)}
        layers = _init_layers(key, num_layers, shapes, sizes)
        tokens = _normal(key, 10, (sizes.vocabulary_size, d), std)
        return {"tokens": tokens, "layers": layers, "output_scale": jnp.ones(d)}

    def read(params: Params, tokens: Array, prefix: Array, positions: Array) -> Array:
        mask = prefix_mask(prefix, tokens.shape[1])

        def block(x: Array, layer: Params) -> Array:
            normal = _rms_norm(x, layer["norm1_scale"])
            x += _project(_attend(normal, layer, sizes, mask), layer, "out")
            normal = _rms_norm(x, layer["norm2_scale"])
            gated = jax.nn.silu(_project(normal, layer, "gate")) * _project(normal, layer, "up")
            return x + _project(gated, layer, "down")

        x = _run_layers(block, params["tokens"][tokens], params["layers"], sizes)
        return _rms_norm(_at(x, positions), params["output_scale"])

    def answer(params: Params, x: Array) -> Array:
        return _tied_logits(x, params["tokens"])

    return Transformer(init, read, answer)


TRANSFORMERS: dict[str, Callable[[Sizes], Transformer]] = {"encoder": encoder, "decoder": decoder}
