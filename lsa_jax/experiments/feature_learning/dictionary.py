"""Inputs made of hidden patterns: a dictionary, the patterns present, and a label that counts some.

x = M phi + zeta. The columns of M are the patterns, phi in {0, 1}^D marks the present ones, zeta is
noise. The label depends on phi_A alone, A being k class-relevant patterns. Without input structure
every phi_j is a fair coin; with it the law of phi differs between relevant and other patterns.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError


class Dictionary:
    """Random streams of the key of a draw."""

    PATTERNS, MIXTURE, ALIKE, VECTORS, NOISE, ORDER, CENTRES, ATTEMPTS = range(8)


class PatternLaw(NamedTuple):
    """The law of hidden patterns, 0.0 or 1.0, and labels, -1.0 or 1.0."""

    num_patterns: int  # D
    relevant: Int[np.ndarray, " k"]  # A, numbers of the class-relevant patterns
    draw: Callable[[Key[Array, ""], int], tuple[Array, Array]]  # (key, n) -> (phi [n, D], y [n])
    label: Callable[[Array], Array] | None  # of phi; None where only patterns of `draw` have one


def count_label(
    relevant: Int[np.ndarray, " k"], positive_counts: tuple[int, ...]
) -> Callable[[Float[Array | np.ndarray, "n D"]], Float[Array, " n"]]:
    """Returns phi -> 1 where the number of relevant patterns is one of these, and -1 elsewhere."""
    sign = np.full(len(relevant) + 1, -1.0, np.float32)
    sign[list(positive_counts)] = 1.0

    def label(phi: Float[Array | np.ndarray, "n D"]) -> Float[Array, " n"]:
        return jnp.asarray(sign)[jnp.sum(phi[:, relevant], axis=1).astype(int)]

    return label


def independent_patterns(
    probabilities: Float[np.ndarray, " D"],
    relevant: Int[np.ndarray, " k"],
    label: Callable[[Array], Array],
) -> PatternLaw:
    """Every pattern is present with a probability of its own, independently.

    Source: Shi, Wei and Liang (2022), section 3; appendix E.1.2 with the label of an interval.
    """
    chances = np.asarray(probabilities, np.float32)

    def draw(key: Key[Array, ""], num_examples: int) -> tuple[Array, Array]:
        uniform = jax.random.uniform(
            jax.random.fold_in(key, Dictionary.PATTERNS), (num_examples, len(chances))
        )
        phi = (uniform < chances[None]).astype(jnp.float32)
        return phi, label(phi)

    return PatternLaw(len(chances), relevant, draw, label)


def parity_mixture(
    num_patterns: int,
    relevant: Int[np.ndarray, " k"],
    p0: float,
    *,
    probabilities: Float[np.ndarray, " D"] | None = None,
    ones_share: float = 0.5,
) -> PatternLaw:
    """The mixture of the lower bound: parities of fair coins, and relevant patterns all alike.

    With probability p0, at most 2/3, all patterns are independent. Otherwise either all relevant
    patterns are present or none is, and each other one with probability p0 / (2 - 2 p0). The label
    is the parity of A, whose size is odd, so that all ones and all zeros differ in it.

    Args:
        num_patterns: D.
        relevant: A.
        p0: share of the first part.
        probabilities: of each pattern in the first part; None takes 1/2. Others than 1/2 give
            relevant patterns of unequal correlation with the label (appendix F).
        ones_share: probability of all ones in the second part; others than 1/2 unbalance classes.

    Source: Shi, Wei and Liang (2022), section 5.2 and appendices C, E.1.1.
    """
    if probabilities is None:
        probabilities = np.full(num_patterns, 0.5)
    parity = count_label(relevant, tuple(range(1, len(relevant) + 1, 2)))
    first = independent_patterns(probabilities, relevant, parity)
    rarer = np.full(num_patterns, p0 / (2 - 2 * p0), np.float32)
    others = independent_patterns(rarer, relevant, parity)
    is_relevant = np.isin(np.arange(num_patterns), relevant)

    def draw(key: Key[Array, ""], num_examples: int) -> tuple[Array, Array]:
        phi, _ = first.draw(key, num_examples)
        second, _ = others.draw(jax.random.fold_in(key, Dictionary.MIXTURE), num_examples)
        picks = jax.random.uniform(jax.random.fold_in(key, Dictionary.ALIKE), (2, num_examples))
        alike = (picks[0] < ones_share).astype(jnp.float32)
        second = jnp.where(is_relevant[None], alike[:, None], second)
        phi = jnp.where(picks[1][:, None] < p0, phi, second)
        return phi, first.label(phi)

    return first._replace(draw=draw)


def hidden_vectors(
    key: Key[Array, ""], num_patterns: int, relevant: Int[np.ndarray, " k"], vectors_per_class: int
) -> PatternLaw:
    """Relevant patterns are one of a few random binary vectors, each of which has a label.

    phi_A is uniform over `vectors_per_class` vectors of either label; others are fair coins.

    Source: Shi, Wei and Liang (2022), appendix E.3.1: 50 vectors a label, D = 250, k = 50.
    """
    shape = (2 * vectors_per_class, len(relevant))
    vectors = jax.random.bernoulli(key, 0.5, shape).astype(jnp.float32)

    def draw(key: Key[Array, ""], num_examples: int) -> tuple[Array, Array]:
        coin_key, vector_key = (
            jax.random.fold_in(key, stream) for stream in (Dictionary.PATTERNS, Dictionary.VECTORS)
        )
        coins = jax.random.bernoulli(coin_key, 0.5, (num_examples, num_patterns))
        which = jax.random.randint(vector_key, (num_examples,), 0, len(vectors))
        phi = coins.astype(jnp.float32).at[:, relevant].set(vectors[which])
        return phi, jnp.where(which < vectors_per_class, 1.0, -1.0)

    return PatternLaw(num_patterns, relevant, draw, None)


def without_structure(law: PatternLaw) -> PatternLaw:
    """Returns the law with the same rule of labels in which every pattern is a fair coin."""
    return independent_patterns(np.full(law.num_patterns, 0.5), law.relevant, law.label)


def draw_patterns(
    key: Key[Array, ""], num_examples: int, law: PatternLaw, negative_share: float | None = None
) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, " n"]]:
    """Draws patterns and labels, by rejection where a share of label -1 is given.

    The share is exact up to rounding; None leaves it to the law.

    Raises:
        InputError: a label is too rare to draw its share.
    """
    if negative_share is None:
        phi, y = law.draw(key, num_examples)
        return np.asarray(phi), np.asarray(y)
    due = {-1: round(negative_share * num_examples)}
    due[1] = num_examples - due[-1]
    found: dict[int, list[np.ndarray]] = {-1: [], 1: []}
    # Attempts have a stream to themselves: their numbers are those of other streams of the key.
    attempts = jax.random.fold_in(key, Dictionary.ATTEMPTS)
    for attempt in range(100):
        phi, y = map(np.asarray, law.draw(jax.random.fold_in(attempts, attempt), num_examples))
        for sign in found:
            found[sign].append(phi[y == sign])
        if all(sum(map(len, found[sign])) >= due[sign] for sign in found):
            break
    else:
        raise InputError(
            f"negative_share is {negative_share}; accepted: shares of labels of probability 1 % or "
            "more"
        )
    phi = np.concatenate([np.concatenate(found[sign])[: due[sign]] for sign in (-1, 1)])
    y = np.repeat(np.float32([-1, 1]), [due[-1], due[1]])
    order = jax.random.permutation(jax.random.fold_in(key, Dictionary.ORDER), num_examples)
    return phi[np.asarray(order)], y[np.asarray(order)]


def correlations(
    phi: Float[np.ndarray, "n D"], y: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " D"]:
    """Returns gamma_j = E[y phi_j] - E[y] E[phi_j] of a sample.

    Source: Shi, Wei and Liang (2022), section 3, assumption (A1).
    """
    return (y - y.mean()) @ (phi - phi.mean(axis=0, keepdims=True)) / len(y)


def orthonormal_dictionary(key: Key[Array, ""], d: int, num_patterns: int) -> Float[Array, "d D"]:
    """Draws a dictionary with orthonormal columns, uniform over all of them."""
    q, r = jnp.linalg.qr(jax.random.normal(key, (d, num_patterns)))
    return q * jnp.sign(jnp.diagonal(r))[None]


def incoherent_dictionary(key: Key[Array, ""], d: int, num_patterns: int) -> Float[Array, "d D"]:
    """Draws a dictionary of independent columns, uniform on the sphere.

    Source: Shi, Wei and Liang (2022), appendix F, (D): unit columns whose products are small.
    """
    columns = jax.random.normal(key, (d, num_patterns))
    return columns / jnp.linalg.norm(columns, axis=0, keepdims=True)


def compose(
    key: Key[Array, ""],
    phi: Float[Array | np.ndarray, "n D"],
    dictionary: Float[Array | np.ndarray, "d D"],
    noise_std: float = 0.0,
) -> Float[Array, "n d"]:
    """Returns x = M phi + zeta, zeta independent N(0, noise_std^2) in every coordinate."""
    x = phi @ dictionary.T
    if noise_std == 0:
        return x
    return x + noise_std * jax.random.normal(jax.random.fold_in(key, Dictionary.NOISE), x.shape)


def normalisation(x: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, " d"], float]:
    """Returns the mean of training inputs and s, s^2 being the sum of their variances.

    (x - mean) / s then has a mean squared length of 1.

    Source: Shi, Wei and Liang (2022), section 3.
    """
    mean = x.mean(axis=0, dtype=np.float64)
    scale = math.sqrt(np.square(x - mean[None]).sum(axis=1).mean())
    return mean.astype(np.float32), scale


def gaussian_mixture(
    key: Key[Array, ""], num_examples: int, centres: Float[Array, "d k"], noise_std: float
) -> Dataset:
    """Draws from 2^k Gaussian clusters around sum_i eps_i M_i, labelled by the parity prod_i eps_i.

    M are the centres; `noise_std` is of every coordinate.

    Source: Shi, Wei and Liang (2022), eq. 290.
    """
    d, k = centres.shape
    signs = jax.random.rademacher(
        jax.random.fold_in(key, Dictionary.CENTRES), (num_examples, k), dtype=jnp.float32
    )
    noise = jax.random.normal(jax.random.fold_in(key, Dictionary.NOISE), (num_examples, d))
    return Dataset(signs @ centres.T + noise_std * noise, jnp.prod(signs, axis=1))
