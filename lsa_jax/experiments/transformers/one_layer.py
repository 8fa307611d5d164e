"""The one-layer Transformer of the theory, f(X) = softmax(V X softmax(X^T W X)), on one-hot tokens.

A sequence s of n of the L tokens stands for X, whose columns are their one-hot vectors. So X^T W X
holds the entries W[s_i, s_j], and V X the columns V[:, s_i]: both are gathers, and no X is made.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Params = dict[str, Array]
Tokens = Int[Array, "b n"]  # sequences; also their labels and positions
Matrix = Float[Array, "L L"]

# Logits that differ by less than this many roundings of V's largest entry count as equal.
_ROUNDINGS = 1000


def attention(w: Matrix, sequences: Tokens) -> Float[Array, "b n n"]:
    """Returns softmax(X^T W X): entry [i, j] is the attention of token s_j to token s_i."""
    scores = w[sequences[:, :, None], sequences[:, None, :]]
    return jax.nn.softmax(scores, axis=1)


def logits(params: Params, sequences: Tokens) -> Float[Array, "b n L"]:
    """Returns the logits V X softmax(X^T W X), with the tokens before the vocabulary."""
    values = params["v"].T[sequences]
    weights = attention(params["w"], sequences)
    return jnp.einsum("bij,bil->bjl", weights, values, precision="highest")


def mean_loss(params: Params, sequences: Tokens, labels: Tokens) -> Float[Array, ""]:
    """Returns the loss: the mean of -log f(X)_{y_j, j} over tokens j and sequences.

    Over all sequences of a distribution it is the population loss.

    Source: Karp (thesis, 2024), equation 4.2.
    """
    outputs = logits(params, sequences)
    right = jnp.take_along_axis(outputs, labels[:, :, None], axis=2)[:, :, 0]
    return jnp.mean(jax.nn.logsumexp(outputs, axis=2) - right)


def mean_loss_at_permutation(
    w: Matrix, scale: float | Float[Array, ""], sequences: Tokens, positions: Tokens
) -> Float[Array, ""]:
    """Returns the loss where V = cP, from the n x n attention alone.

    There the logit of pi(s_i) is c times the attention to s_i, and the other L - n logits are 0, so
    no array as long as the vocabulary is needed. Positions are those of every token's
    label-determining token.
    """
    b, n = sequences.shape
    outputs = scale * attention(w, sequences)
    right = jnp.take_along_axis(outputs, positions[:, None, :], axis=1)[:, 0]
    outputs = jnp.append(outputs, jnp.zeros((b, 1, n), outputs.dtype), axis=1)
    counts = jnp.append(jnp.ones(n, outputs.dtype), len(w) - n)[None, :, None]
    return jnp.mean(jax.nn.logsumexp(outputs, axis=1, b=counts) - right)


def mean_loss_at_uniform_attention(
    v: Matrix, sequences: Tokens, labels: Tokens
) -> Float[Array, ""]:
    """Returns the loss where W = 0: all tokens of a sequence have one and the same logits."""
    outputs = jnp.mean(v.T[sequences], axis=1)
    right = jnp.take_along_axis(outputs, labels, axis=1)
    return jnp.mean(jax.nn.logsumexp(outputs, axis=1)) - jnp.mean(right)


def strictly_correct(params: Params, sequences: Tokens, labels: Tokens) -> Bool[Array, "b n"]:
    """Returns whether the label of every token alone has the largest logit.

    A tie is wrong, and so is a margin within rounding: below 1,000 times the rounding of V's
    largest entry.
    """
    v, outputs = params["v"], logits(params, sequences)
    right = jnp.take_along_axis(outputs, labels[:, :, None], axis=2)[:, :, 0]
    is_label = jnp.arange(outputs.shape[2])[None, None] == labels[:, :, None]
    margins = right - jnp.max(jnp.where(is_label, -jnp.inf, outputs), axis=2)
    return margins > _ROUNDINGS * jnp.finfo(v.dtype).eps * jnp.max(jnp.abs(v))
