import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.transformers import sampler, value_step
from lsa_jax.experiments.transformers.one_layer import mean_loss_at_uniform_attention
from lsa_jax.experiments.transformers.settings import SETTINGS
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.course import subsample

L, N = 7, 3


@pytest.fixture(scope="module")
def task():
    return sampler.random_lists(jax.random.key(4), L, 3)


@pytest.fixture(scope="module")
def population(task):
    sets = jnp.asarray(sampler.all_sets(L, N))
    return sets, sampler.label_sequences(task, sets)


def test_counting_gives_the_gradient_of_the_whole_population(task, population):
    v = 1e-3 * np.random.default_rng(0).normal(size=(L, L))
    with jax.enable_x64(True):
        expected = jax.jit(jax.grad(mean_loss_at_uniform_attention))(jnp.asarray(v), *population)
        expected = np.asarray(expected)
    found = value_step.population_gradient(task, N, v)
    # Of second order in V.
    np.testing.assert_allclose(found, expected, atol=1e-6)
    without = value_step.population_gradient(task, N, np.zeros((L, L)))
    assert np.abs(without - expected).max() > 1e-5


def test_samples_give_the_same_gradient_up_to_their_noise(task):
    v = jnp.zeros((L, L))
    found, limit = value_step.sampled_gradient(jax.random.key(0), task, N, v, 10_200)
    expected = value_step.population_gradient(task, N, np.zeros((L, L)))
    np.testing.assert_allclose(found, expected, atol=5 * 0.5 / N / np.sqrt(10_200))
    assert 1 / N <= limit <= 1


def test_a_permutation_is_picked_up_whole(task):
    found = value_step.picked_up(3 * sampler.permutation_matrix(task.pi) - 1, task.pi)
    assert found["columns_right"] == 1 and found["correlation"] == pytest.approx(1)
    assert [found[n] for n in ("on_min", "on_mean", "off_mean", "off_max")] == [2, 2, -1, -1]
    v = np.arange(1.0, L * L + 1).reshape(L, L)
    on, found = v[task.pi, np.arange(L)], value_step.picked_up(v, task.pi)
    assert (found["on_min"], found["on_mean"]) == (on.min(), on.mean())
    off = np.setdiff1d(v, on)
    assert (found["off_mean"], found["off_max"]) == (off.mean(), off.max())


def test_figure_4_1_picks_the_permutation_up():
    """V on P is L^2 / n^2 Pr(label) n - 1 = 7 there."""
    sizes = {"vocabulary_size": 200, "sequence_length": 25, "list_length": 4}
    config = set_fields(SETTINGS.default_config(), {"question": "value_step", **sizes})
    metrics = value_step.run_step(config, sampler.cyclic_lists(200, 4, step=10, shift=20)).metrics
    assert metrics["columns_right"] == 1
    assert metrics["on_mean"] == pytest.approx(7, abs=1e-4)


def test_the_step_is_measured_as_its_closed_form_says():
    """At W = 0 an output's derivatives are 1 / n for the tokens in V, and of the size of V in W."""
    fields = {"question": "value_step", "vocabulary_size": 12, "sequence_length": 4}
    fields |= {"measures": ("kernel_distance", "target_alignment", "weight_movement")}
    config = set_fields(SETTINGS.default_config(), fields | {"measured_examples": 30})
    task = sampler.random_lists(jax.random.key(2), 12, 2)
    outcome = value_step.run_step(config, task)
    start, end = outcome.history
    assert start["kernel_distance"] == pytest.approx(0, abs=3e-5)
    assert end["kernel_distance"] > 1e-3 and outcome.metrics["measured_examples"] == 30
    v = np.asarray(value_step.start_of(config)["v"])
    moved = np.linalg.norm(value_step.value_after_step(config, task)[0] - v) / np.linalg.norm(v)
    assert end["weight_movement/v"] == pytest.approx(moved, rel=1e-4)
    assert end["weight_movement/v"] == outcome.metrics["weight_movement/v"]
    key = jax.random.fold_in(jax.random.key(config.seed), sampler.Seed.MEASURED)
    order = subsample(30, 30)
    sequences = sampler.sample_sequences(key, 30, 12, 4)[order]
    labels = np.asarray(sampler.label_sequences(jax.tree.map(jnp.asarray, task), sequences))[:, -1]
    member = np.asarray(sequences)[:, :, None] == np.arange(12)
    shared = member.any(axis=1).astype(float)
    centring = np.eye(30) - 1 / 30
    a, b = (
        centring @ k @ centring for k in (shared @ shared.T, np.equal.outer(labels, labels) * 1.0)
    )
    alignment = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
    assert start["target_alignment"] == pytest.approx(alignment, rel=1e-3)
