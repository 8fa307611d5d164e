"""Objectives of language models on windows of text: masked tokens, or UL2's three tasks.

An objective turns windows [b, n] into a `TokenBatch` of fixed shapes. Its draws for a window are a
function of the key and the window's place in the batch.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from lsa_jax.errors import InputError

# The first ids of every vocabulary; the sentinels of span corruption follow.
PAD, SEPARATOR, MASK, UNKNOWN = range(4)
SPECIAL_TOKENS = ("[PAD]", "[SEP]", "[MASK]", "[UNK]")
FIRST_SENTINEL = len(SPECIAL_TOKENS)

# Devlin et al. (2018): share of the tokens that is predicted; of it, shares that show the mask or a
# random token.
_MASKED_SHARE, _SHOWN_MASK, _SHOWN_RANDOM = 0.15, 0.8, 0.1

# Raffel et al. (2020): 15 % of the tokens are cut out, in spans of 3 on average.
_NOISE_SHARE, _MEAN_SPAN = 0.15, 3.0

# Karp (thesis, 2024), appendix C.1.2: shares of causal, prefix and span tasks.
UL2_SHARES = (0.6, 0.2, 0.2)


class TokenBatch(NamedTuple):
    """Inputs and targets of a Transformer."""

    tokens: Int[Array, "b n"]  # the inputs
    prefix: Int[Array, " b"]  # number of first tokens that all see each other (decoders)
    positions: Int[Array, "b p"]  # of the tokens to predict
    targets: Int[Array, "b p"]  # the tokens to predict
    weights: Float[Array, "b p"]  # 1 where the answer counts, 0 where it is filling


class SpanSizes(NamedTuple):
    """Span corruption of a window of n tokens, with sizes that are the same for all windows."""

    tokens: int  # first tokens of the window that are used; the rest does not fit
    noise: int  # tokens that are cut out
    spans: int  # number of spans of them, each replaced by a sentinel

    @property
    def total(self) -> int:
        """Tokens of the corrupted text and of the answer, both with their sentinels."""
        return self.tokens + 2 * self.spans


def span_sizes(length: int) -> SpanSizes:
    """Returns the sizes that fit the most tokens into windows of this length.

    Raises:
        InputError: the windows are too short for a single span.
    """
    for tokens in range(length, 3, -1):
        noise = max(round(tokens * _NOISE_SHARE), 1)
        spans = max(round(noise / _MEAN_SPAN), 1)
        if tokens + 2 * spans <= length:
            return SpanSizes(tokens, noise, spans)
    raise InputError(f"length is {length}; accepted for span corruption: 6 or more")


def num_sentinels(objective: str, length: int) -> int:
    """Returns the number of sentinels of an objective on windows of this length."""
    return span_sizes(length).spans if objective in ("spans", "ul2") else 0


def _masked(key: Key[Array, ""], window: Int[Array, " n"], vocabulary_size: int) -> TokenBatch:
    """Hides 15 % of the tokens, never a separator: BERT's task for one window."""
    n = len(window)
    count = max(round(_MASKED_SHARE * n), 1)
    pick_key, show_key, random_key = (jax.random.fold_in(key, i) for i in range(3))
    scores = jnp.where(window < FIRST_SENTINEL, -1.0, jax.random.uniform(pick_key, (n,)))
    best, positions = jax.lax.top_k(scores, count)
    targets = window[positions]
    show = jax.random.uniform(show_key, (count,))
    random = jax.random.randint(random_key, (count,), FIRST_SENTINEL, vocabulary_size)
    shown = jnp.where(show < _SHOWN_MASK + _SHOWN_RANDOM, random, targets)
    shown = jnp.where(show < _SHOWN_MASK, MASK, shown)
    # In a window of separators there may be fewer tokens to predict.
    weights = (best >= 0).astype(jnp.float32)
    tokens = window.at[positions].set(jnp.where(weights > 0, shown, targets))
    return TokenBatch(tokens, jnp.int32(0), positions, targets, weights)


def _next_tokens(text: Int[Array, " n"], prefix: Array, weights: Array) -> TokenBatch:
    """Predicts every token from the tokens before it; the input begins with a separator."""
    tokens = jnp.append(jnp.full(1, SEPARATOR, text.dtype), text[:-1])
    return TokenBatch(tokens, prefix, jnp.arange(len(text)), text, weights)


def _causal(key: Key[Array, ""], window: Int[Array, " n"]) -> TokenBatch:
    del key
    return _next_tokens(window, jnp.int32(0), jnp.ones(len(window)))


def _prefix(key: Key[Array, ""], window: Int[Array, " n"]) -> TokenBatch:
    """Shows a prefix of uniform length and predicts the rest."""
    n = len(window)
    prefix = jax.random.randint(key, (), 1, n)
    asked = jnp.arange(n) >= prefix - 1
    return _next_tokens(window, prefix, asked.astype(jnp.float32))


def _random_parts(key: Key[Array, ""], total: int, parts: int) -> Int[Array, " parts"]:
    """Cuts `total` into positive parts, all ways being equally likely."""
    cuts = jax.random.choice(key, total - 1, (parts - 1,), replace=False) + 1
    return jnp.diff(jnp.sort(cuts), prepend=0, append=total)


def corrupt_spans(
    key: Key[Array, ""], window: Int[Array, " n"]
) -> tuple[Int[Array, " n"], SpanSizes]:
    """Returns the text with sentinels for its spans, then sentinels with the spans, then filling.

    Source: Raffel et al. (2020), T5.
    """
    sizes = span_sizes(len(window))
    text_key, noise_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    text = _random_parts(text_key, sizes.tokens - sizes.noise, sizes.spans)
    noise = _random_parts(noise_key, sizes.noise, sizes.spans)
    ends = jnp.cumsum(jnp.stack([text, noise], axis=1).ravel())
    place = jnp.arange(sizes.tokens)
    part = jnp.searchsorted(ends, place, side="right")  # even parts are text, odd ones spans
    span, is_noise = part // 2, part % 2 == 1
    noise_before = jnp.cumsum(is_noise) - is_noise
    answer = sizes.tokens - sizes.noise + sizes.spans
    to = jnp.where(is_noise, answer + noise_before + span + 1, place - noise_before + span)
    out = jnp.full(len(window), PAD, window.dtype).at[to].set(window[: sizes.tokens])
    order = jnp.arange(sizes.spans)
    sentinels = (FIRST_SENTINEL + order).astype(window.dtype)
    out = out.at[jnp.cumsum(text) + order].set(sentinels)
    return out.at[answer + jnp.cumsum(noise) - noise + order].set(sentinels), sizes


def _spans(key: Key[Array, ""], window: Int[Array, " n"]) -> TokenBatch:
    """Shows a text without its spans and predicts them."""
    text, sizes = corrupt_spans(key, window)
    shown = sizes.tokens - sizes.noise + sizes.spans
    place = jnp.arange(len(window))
    asked = (place >= shown) & (place < sizes.total)
    return _next_tokens(text, jnp.int32(shown + 1), asked.astype(jnp.float32))


def _ul2(key: Key[Array, ""], window: Int[Array, " n"]) -> TokenBatch:
    kind_key, task_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    kind = jax.random.choice(kind_key, len(UL2_SHARES), p=jnp.asarray(UL2_SHARES))
    return jax.lax.switch(kind, (_causal, _prefix, _spans), task_key, window)


def make_objective(
    name: str, length: int, vocabulary_size: int
) -> Callable[[Key[Array, ""], Int[Array, "b n"]], TokenBatch]:
    """Returns `(key, windows [b, n]) -> TokenBatch`.

    It is "masked" (BERT); "causal"; "prefix"; "spans"; or "ul2", which is one of the last three for
    each window, with shares of 60, 20 and 20 %. The vocabulary includes special tokens.

    Raises:
        InputError: the windows are too short for a span.
    """
    tasks = {"causal": _causal, "prefix": _prefix, "spans": _spans, "ul2": _ul2}
    tasks["masked"] = lambda key, window: _masked(key, window, vocabulary_size)
    num_sentinels(name, length)  # raises

    def prepare(key: Key[Array, ""], windows: Int[Array, "b n"]) -> TokenBatch:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, np.arange(len(windows)))
        return jax.vmap(tasks[name])(keys, windows)

    return jax.jit(prepare)
