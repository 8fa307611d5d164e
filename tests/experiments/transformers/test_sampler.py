import itertools
import math

import jax
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax.experiments.transformers import sampler
from lsa_jax.experiments.transformers.settings import SETTINGS

make = maker(SETTINGS, {"sweep.cases": ((20, 5, 4),)})


@pytest.fixture(scope="module")
def task():
    return sampler.random_lists(jax.random.key(0), 7, 3)


def label_by_definition(task, sequence):
    labels = []
    for token in sequence:
        member = next(m for m in task.lists[token] if m in sequence)
        labels.append(task.pi[member])
    return labels


def test_labels_are_pi_of_the_first_member_that_is_there(task):
    sequences = np.array(list(itertools.permutations(range(7), 3)))[::11]
    expected = [label_by_definition(task, list(sequence)) for sequence in sequences]
    np.testing.assert_array_equal(sampler.label_sequences(task, sequences), expected)
    positions = np.asarray(sampler.determining_positions(task.lists, sequences))
    tokens = np.take_along_axis(sequences, positions, axis=1)
    np.testing.assert_array_equal(task.pi[tokens], expected)


def test_every_set_is_listed_once():
    found = sampler.all_sets(7, 3)
    assert len(np.unique(found, axis=0)) == len(found) == math.comb(7, 3)
    assert all(len(set(row)) == 3 and 0 <= min(row) and max(row) < 7 for row in found.tolist())


def test_samples_have_no_repetition_and_every_sequence_is_as_likely():
    found = np.asarray(sampler.sample_sequences(jax.random.key(0), 6000, 5, 3))
    assert all(len(set(row)) == 3 for row in found.tolist())
    counts = np.unique(found @ np.array([25, 5, 1]), return_counts=True)[1]
    assert len(counts) == math.perm(5, 3)
    chi_squared = np.sum((counts - 100) ** 2 / 100)
    assert chi_squared < 59 + 5 * math.sqrt(2 * 59)


def test_random_lists_hold_distinct_tokens_and_end_with_their_own(task):
    assert sorted(task.pi) == list(range(7))
    lengths = sampler.list_lengths(task.lists)
    assert set(lengths) == {1, 2, 3}
    for a, (row, length) in enumerate(zip(task.lists.tolist(), lengths, strict=True)):
        assert row[length - 1 :] == [a] * (4 - length) and len(set(row)) == length


def test_cyclic_lists_are_those_of_figure_4_1_modulo_the_vocabulary():
    """L_a = a + s, a + 2 s, a + 3 s, a and pi(a) = a + shift, modulo L."""
    task = sampler.make_lists(make(lists="cyclic", list_step=3, label_shift=7)[1][0].config)
    a = np.arange(20)
    np.testing.assert_array_equal(task.pi, (a + 7) % 20)
    np.testing.assert_array_equal(task.lists, np.stack([a + 3, a + 6, a + 9, a], 1) % 20)
    matrix = sampler.permutation_matrix(task.pi)
    assert matrix[task.pi[7], 7] == 1 and matrix.sum() == 20
    first, second = (sampler.make_lists(p.config) for p in make(sweep__seed=(0, 5))[1])
    assert (first.pi != second.pi).any() and (first.lists != second.lists).any()


def least_by_enumeration(task, length):
    """Assumption 4.3 by its words, over every set of tokens."""
    tokens, sets = len(task.pi), [set(s) for s in sampler.all_sets(len(task.pi), length).tolist()]
    found = []
    for a, b, c in itertools.product(range(tokens), repeat=3):
        row = list(dict.fromkeys(task.lists[a].tolist()))
        if b not in row or c == b or c in row[: row.index(b)]:
            continue
        before = row[: row.index(b)]
        found.append(np.mean([{a, b, c} <= s and not s & set(before) for s in sets]))
    return min(p for p in found if p > 0)


@pytest.mark.parametrize("length", [2, 3, 5])
def test_delta_is_the_least_probability_of_a_triple(task, length):
    delta = sampler.least_triple_probability(task.lists, length)
    assert delta == pytest.approx(least_by_enumeration(task, length))
