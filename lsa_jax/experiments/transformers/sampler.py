"""Sequences in which every token is labelled by its own decision list.

Token a has a list L_a of tokens that ends with a. In a sequence without repetition its label is pi
of the first member of L_a that is present. Tokens are numbered from 0; sequences are uniform over
all n-permutations of the vocabulary.
"""

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from lsa_jax.sweep.fields import Config


class Seed:
    """Of a seed's key. The questions share the lists; each draws the rest by itself."""

    LISTS = 0
    VALUES = 1  # training from values that are more or less random
    INIT, SEQUENCES, MEASURED = 1, 2, 3  # one step on the values
    VALUE_NOISE = 1  # the theorems


# Streams of the key of the lists.
_PERMUTATION, _LENGTHS, _MEMBERS = range(3)

Sequences = Int[Array | np.ndarray, "sequences n"]
Lists = Int[Array | np.ndarray, "L M"]


class DecisionLists(NamedTuple):
    """A permutation and one list a token; L tokens, lists of up to M."""

    pi: Int[np.ndarray, " L"]  # the label of each token
    lists: Lists  # row a is L_a, which ends with a, filled up with a


def cyclic_lists(
    vocabulary_size: int, list_length: int, step: int = 1, shift: int = 0
) -> DecisionLists:
    """Returns L_a = (a + step, ..., a + (M - 1) step, a) and pi(a) = a + shift, modulo L.

    Source: Karp (thesis, 2024), figure 4.1, with step = 10, shift = 20, M = 4, L = 200. It prints
    i mod (L + 1), which is no permutation of L tokens.
    """
    tokens = np.arange(vocabulary_size)
    offsets = step * np.append(np.arange(1, list_length), 0)
    return DecisionLists(
        (tokens + shift) % vocabulary_size, (tokens[:, None] + offsets[None]) % vocabulary_size
    )


def random_lists(key: Key[Array, ""], vocabulary_size: int, list_length: int) -> DecisionLists:
    """Draws pi uniformly, the lists' lengths uniformly from 1 to M and their members uniformly."""
    pi = jax.random.permutation(jax.random.fold_in(key, _PERMUTATION), vocabulary_size)
    shape, tokens = (vocabulary_size,), np.arange(vocabulary_size)
    lengths = jax.random.randint(jax.random.fold_in(key, _LENGTHS), shape, 1, list_length + 1)
    keys = jax.random.split(jax.random.fold_in(key, _MEMBERS), vocabulary_size)
    members = np.asarray(jax.vmap(lambda k: jax.random.permutation(k, vocabulary_size - 1))(keys))
    # Numbers from a on stand for the tokens after a, so that a itself is left out.
    members = (members + (members >= tokens[:, None]))[:, : list_length - 1]
    inside = np.arange(list_length - 1)[None] < np.asarray(lengths)[:, None] - 1
    lists = np.where(inside, members, tokens[:, None])
    return DecisionLists(np.asarray(pi), np.append(lists, tokens[:, None], axis=1))


def make_lists(config: Config) -> DecisionLists:
    """Returns the lists of a point."""
    sizes = (config.vocabulary_size, config.list_length)
    if config.lists == "cyclic":
        return cyclic_lists(*sizes, step=config.list_step, shift=config.label_shift)
    return random_lists(jax.random.fold_in(jax.random.key(config.seed), Seed.LISTS), *sizes)


def list_lengths(lists: Lists) -> Int[np.ndarray, " L"]:
    """Returns the lengths of the lists, without the filling."""
    return np.argmax(lists == np.arange(len(lists))[:, None], axis=1) + 1


def permutation_matrix(pi: Int[np.ndarray, " L"]) -> Float[np.ndarray, "L L"]:
    """Returns P with P[pi(k), k] = 1 and zeros elsewhere, in float64."""
    matrix = np.zeros((len(pi), len(pi)))
    matrix[pi, np.arange(len(pi))] = 1
    return matrix


def all_sets(vocabulary_size: int, sequence_length: int) -> Int[np.ndarray, "sets n"]:
    """Returns every set of n tokens once, as a sequence in rising order.

    Without positional encoding neither labels nor loss depend on the order, so the mean over these
    is the mean over all sequences.
    """
    found = itertools.combinations(range(vocabulary_size), sequence_length)
    return np.array(list(found), np.int32).reshape(-1, sequence_length)


def sample_sequences(
    key: Key[Array, ""], num_sequences: int, vocabulary_size: int, sequence_length: int
) -> Sequences:
    """Draws independent sequences, uniform over all n-permutations of the vocabulary."""
    # The order of random numbers is a uniform permutation.
    order = jax.random.bits(key, (num_sequences, vocabulary_size))
    return lax.top_k(order, sequence_length)[1]


def determining_positions(lists: Lists, sequences: Sequences) -> Sequences:
    """Returns the position of each token's label-determining token: the first of its list."""
    lists = jnp.asarray(lists)

    def of_one(sequence: Int[Array, " n"]) -> Int[Array, " n"]:
        absent = jnp.full(len(lists), -1, jnp.int32)
        place = absent.at[sequence].set(jnp.arange(len(sequence), dtype=jnp.int32))
        places = place[lists[sequence]]
        first = jnp.argmax(places >= 0, axis=1)
        return jnp.take_along_axis(places, first[:, None], axis=1)[:, 0]

    return jax.vmap(of_one)(jnp.asarray(sequences))


def label_sequences(task: DecisionLists, sequences: Sequences) -> Sequences:
    """Returns pi of every token's label-determining token."""
    sequences = jnp.asarray(sequences)
    positions = determining_positions(task.lists, sequences)
    return jnp.asarray(task.pi)[jnp.take_along_axis(sequences, positions, axis=1)]


def presence_probability(
    vocabulary_size: int, sequence_length: int, present: int, absent: int
) -> float:
    """Returns the probability that so many tokens are in a sequence and so many others are not."""
    free, open_places = vocabulary_size - present - absent, sequence_length - present
    if free < 0 or open_places < 0:
        return 0.0
    return math.comb(free, open_places) / math.comb(vocabulary_size, sequence_length)


def least_triple_probability(lists: Lists, sequence_length: int) -> float:
    """Returns delta of assumption 4.3 for uniform sequences, by counting.

    It is the least positive probability, over tokens a, members b of L_a and tokens c that are
    later in L_a or not in it, that a, b and c are in the sequence and b determines a's label.
    """
    vocabulary_size = len(lists)
    found = []
    for length in set(list_lengths(lists).tolist()):
        for before in range(length):
            # b is a where the list ends; c may be a before that, or any third token.
            tokens = (2,) if before == length - 1 else (2, 3)
            found += [
                presence_probability(vocabulary_size, sequence_length, present, before)
                for present in tokens
            ]
    return min(probability for probability in found if probability > 0)
