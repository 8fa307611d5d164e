"""Training from a random V: starts, measures, resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax.experiments.transformers import sampler, training
from lsa_jax.experiments.transformers.experiment import EXPERIMENT
from lsa_jax.experiments.transformers.one_layer import logits, strictly_correct
from lsa_jax.experiments.transformers.settings import SETTINGS
from lsa_jax.training.course import subsample
from lsa_jax.training.measures import target_alignment

TINY = {
    "question": "value_random",
    "learning_rate": 5.0,
    "steps": 60,
    "eval_every": 20,
    "checkpoint_every": 1,
    "sweep.cases": ((5, 3, 2),),
    "sweep.value_scale": (4.0,),
    "sweep.randomness": (0.1, 1.0),
    "sweep.seed": (0, 1),
}
make = maker(SETTINGS, TINY)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Outcomes with measures, which change nothing: the killed run has none."""
    names = ("kernel_distance", "weight_movement")
    _, points = make(measures=names, measured_examples=8)
    place = tmp_path_factory.mktemp("training")
    return EXPERIMENT.run(points, None, place, lambda fraction: None)


@pytest.mark.parametrize("randomness", [0.3, 1.0])
def test_a_run_starts_between_the_permutation_and_uniform_values_and_is_measured_there(randomness):
    config = make(sweep__cases=((20, 3, 2),), sweep__randomness=(randomness,))[1][0].config
    sequences, task = jnp.asarray(sampler.all_sets(20, 3)), sampler.make_lists(config)
    replica = training.make_replica(config, task, sequences)
    v, p = np.asarray(replica.start["v"], float), sampler.permutation_matrix(task.pi)
    noise = v / 4 - (1 - randomness) * p  # the scale is 4
    assert np.abs(noise).max() <= randomness + 1e-6
    # Of 400 uniform entries: mean 0 and variance 1/3.
    assert abs(noise.mean()) <= 4 * randomness * (1 / 3 / 400) ** 0.5
    np.testing.assert_allclose(noise.std(), randomness * 3**-0.5, rtol=0.1)
    state = training.AttentionState(replica.start, jnp.array(True))
    _, row = training.advance(5.0, state, replica, sequences, jnp.int32(0))
    expected = {"correlation": np.corrcoef(v.ravel(), p.ravel())[0, 1]}
    expected |= {"distance": np.abs(v / 4 - p).max(), "perfect": 0.0}
    expected["columns_right"] = np.mean(v.argmax(axis=0) == p.argmax(axis=0))
    expected["accuracy"] = float(
        np.mean(strictly_correct(replica.start, sequences, replica.labels))
    )
    assert {name: float(row[name]) for name in expected} == pytest.approx(expected, rel=1e-5)
    assert (expected["columns_right"] == 1) == (randomness < 0.5)


def test_training_succeeds_from_near_the_permutation(trained):
    _, points = make()
    assert len(EXPERIMENT.groups(points)) == 1
    for point, outcome in zip(points, trained, strict=True):
        metrics, course = outcome.metrics, [row for row in outcome.history if "loss" in row]
        assert metrics["start_distance"] <= 2 * point.config.randomness
        for name in ("accuracy", "loss", "columns_right", "correlation"):
            assert metrics[name] == course[-1][name]
        if point.config.randomness == 0.1:
            assert metrics["success"] == 1 and metrics["first_perfect"] > 0
            assert course[-1]["loss"] < course[1]["loss"]


def test_measures_are_taken_along_training(trained):
    for outcome in trained:  # W starts at 0
        assert outcome.metrics["kernel_distance"] > 1e-4
        assert outcome.metrics["weight_movement/v"] > 0
        steps = [row["step"] for row in outcome.history if row.get("kernel_distance") is not None]
        assert steps == [0, 20, 40, 60]


def test_kernels_are_aligned_with_the_last_tokens_labels_of_each_replica():
    sequences, generator = jnp.asarray(sampler.all_sets(7, 3)), np.random.default_rng(0)
    lists = [sampler.random_lists(jax.random.key(seed), 7, 2) for seed in (0, 1)]
    starts = {n: generator.normal(size=(2, 7, 7)).astype(np.float32) for n in ("w", "v")}
    labels = [sampler.label_sequences(one, sequences) for one in lists]
    fields = {"measures": ("target_alignment",), "measured_examples": 12}
    config = make(sweep__cases=((7, 3, 2),), **fields)[1][0].config
    course = training.make_course(config, starts, sequences, labels, [0, 4])
    course.take(0, starts)
    chosen = np.asarray(subsample(len(sequences), 12))

    def last(params, sequences):
        return logits(params, sequences)[:, 2]

    for replica in (0, 1):
        params = jax.tree.map(lambda leaf, r=replica: leaf[r], starts)
        targets = np.eye(7)[np.asarray(labels[replica])[chosen, -1]]
        expected = target_alignment(last, params, params, sequences[chosen], targets)
        found = course.row_of(replica, 0)["target_alignment"]
        assert found == pytest.approx(float(expected), rel=1e-5)


def test_a_run_whose_loss_is_not_finite_has_failed(tmp_path):
    _, points = make(sweep__value_scale=(3e38,), sweep__seed=(0,))
    outcomes = EXPERIMENT.run(points[1:], None, tmp_path, lambda fraction: None)
    assert outcomes[0].status == "failed" and "config.learning_rate" in outcomes[0].message
