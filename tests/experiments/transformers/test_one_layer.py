"""The one-layer Transformer from gathers against the formula with one-hot matrices."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from lsa_jax.experiments.transformers import one_layer, sampler

L, N, M = 6, 3, 3
ALL_SEQUENCES = np.array(list(itertools.permutations(range(L), N)), np.int32)

GRADIENT = jax.jit(jax.value_and_grad(one_layer.mean_loss))


@pytest.fixture(scope="module")
def task():
    return sampler.random_lists(jax.random.key(1), L, M)


@pytest.fixture(scope="module")
def params():
    generator = np.random.default_rng(0)
    return {"w": generator.normal(size=(L, L)), "v": 2 * generator.normal(size=(L, L))}


def dense_logits(params, sequence):
    """V X softmax(X^T W X), with X as it is written: [L, n], float64."""
    x = np.eye(L)[:, sequence]
    return params["v"] @ x @ softmax(x.T @ params["w"] @ x, axis=0)


def dense_loss(params, sequences, labels):
    found = []
    for sequence, label in zip(sequences, labels, strict=True):
        logs = log_softmax(dense_logits(params, sequence), axis=0)
        found += [-logs[y, j] for j, y in enumerate(label)]
    return np.mean(found)


def single(params):
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)


def test_loss_and_gradient_are_those_of_the_whole_population(params, task):
    """Against the dense formula over all sequences in every order, and its finite differences."""
    sequences = ALL_SEQUENCES
    labels = np.asarray(sampler.label_sequences(task, sequences))
    sets = jnp.asarray(sampler.all_sets(L, N))
    loss, gradient = GRADIENT(single(params), sets, sampler.label_sequences(task, sets))
    assert loss == pytest.approx(dense_loss(params, sequences, labels), rel=1e-5)
    generator = np.random.default_rng(1)
    for name in ("w", "v"):
        direction = generator.normal(size=(L, L))
        at = [
            dense_loss({**params, name: params[name] + h * direction}, sequences, labels)
            for h in (1e-5, -1e-5)
        ]
        expected = (at[0] - at[1]) / 2e-5
        assert np.sum(direction * np.asarray(gradient[name])) == pytest.approx(expected, rel=1e-4)


def test_short_cuts_are_the_loss_at_a_permutation_and_at_uniform_attention(params, task):
    sets, c, w = jnp.asarray(sampler.all_sets(L, N)), 3.5, single(params)["w"]
    labels = sampler.label_sequences(task, sets)
    v = jnp.asarray(c * sampler.permutation_matrix(task.pi), jnp.float32)
    positions = sampler.determining_positions(task.lists, sets)
    short = one_layer.mean_loss_at_permutation, (w, c, sets, positions)
    uniform, v_free = {"w": jnp.zeros((L, L)), "v": single(params)["v"]}, single(params)["v"]
    flat = one_layer.mean_loss_at_uniform_attention, (v_free, sets, labels)
    for (cut, given), at, name in ((short, {"w": w, "v": v}, "w"), (flat, uniform, "v")):
        loss, gradient = GRADIENT(at, sets, labels)
        found, found_gradient = jax.jit(jax.value_and_grad(cut))(*given)
        assert found == pytest.approx(float(loss), rel=1e-6)
        np.testing.assert_allclose(found_gradient, gradient[name], atol=1e-6)


def test_a_token_is_right_where_its_label_alone_has_the_largest_logit(params, task):
    sets = sampler.all_sets(L, N)
    labels = np.asarray(sampler.label_sequences(task, sets))
    expected = []
    for sequence, label in zip(sets, labels, strict=True):
        outputs = dense_logits(params, sequence)
        for j, y in enumerate(label):
            expected.append(outputs[y, j] - np.delete(outputs[:, j], y).max())
    tied = {
        "w": jnp.zeros((L, L)),
        "v": jnp.asarray(9 * sampler.permutation_matrix(task.pi), jnp.float32),
    }
    assert not one_layer.strictly_correct(tied, jnp.asarray(sets), jnp.asarray(labels)).any()
    right = one_layer.strictly_correct(single(params), jnp.asarray(sets), jnp.asarray(labels))
    np.testing.assert_array_equal(np.ravel(right), np.array(expected) > 0.01)
