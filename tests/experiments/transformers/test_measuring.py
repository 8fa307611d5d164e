"""What is measured of one-layer Transformers: each sequence's last token, with its own label."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax.experiments.transformers import settings
from lsa_jax.experiments.transformers.measuring import last_logits, make_course
from lsa_jax.experiments.transformers.one_layer import logits
from lsa_jax.experiments.transformers.sampler import all_sets, label_sequences, random_lists
from lsa_jax.training.course import affordable, subsample
from lsa_jax.training.measures import target_alignment

L, N = 7, 3

make = maker(settings, {"question": "value_random", "sweep.cases": ((L, N, 2),)})


@pytest.fixture
def run():
    """Returns sequences, labels of two replicas and their parameters at the start."""
    sequences, generator = jnp.asarray(all_sets(L, N)), np.random.default_rng(0)
    lists = [random_lists(jax.random.key(seed), L, 2) for seed in (0, 1)]
    starts = {n: generator.normal(size=(2, L, L)).astype(np.float32) for n in ("w", "v")}
    return sequences, [label_sequences(one, sequences) for one in lists], starts


def test_the_last_token_stands_for_its_sequence(run):
    sequences, _, starts = run
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf[1]), starts)
    found, every = last_logits(params, sequences), np.asarray(logits(params, sequences))
    np.testing.assert_array_equal(found, every[:, N - 1])
    assert np.abs(found - every[:, 0]).max() > 0.1 < np.abs(found - every[:, 1]).max()


def test_kernels_are_aligned_with_the_last_tokens_labels_of_each_replica(run):
    sequences, labels, starts = run
    config = make(measures=("target_alignment",), measured_examples=12)[1][0].config
    course = make_course(config, starts, sequences, labels, [0, 4])
    course.take(0, starts)
    chosen = subsample(len(sequences), 12)
    for replica in (0, 1):
        params = jax.tree.map(lambda leaf, r=replica: leaf[r], starts)
        targets = np.eye(L)[np.asarray(labels[replica])[np.asarray(chosen), -1]]
        expected = target_alignment(last_logits, params, params, sequences[chosen], targets)
        found = course.row_of(replica, 0)["target_alignment"]
        assert found == pytest.approx(float(expected), rel=1e-5)


def test_longer_training_is_measured_on_more_sequences_as_each_step_sees_them_all(run):
    sequences, labels, starts = run
    config = make(measures=("kernel_distance",))[1][0].config
    one = jax.tree.map(lambda leaf: leaf[0], starts)
    counts = []
    for steps in (1, 3_000, 30_000, 10**6):
        marks = [0, 1, steps] if steps > 1 else [0, 1]
        course = make_course(config, starts, sequences, labels, marks)
        counts.append(course.cost([], 1).examples)
        seen = 35 * steps  # of the 35 sets of 3 of 7 tokens
        afford = affordable(last_logits, one, sequences[0], marks, seen)[0]
        assert counts[-1] == min(afford, 35)
    assert counts[0] == 16 < counts[-1] == 35 and counts == sorted(counts)
