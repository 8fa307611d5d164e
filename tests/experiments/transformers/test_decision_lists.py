"""Sweeps of decision lists from end to end: results, claims, resuming."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.experiments.transformers import settings, training
from lsa_jax.experiments.transformers.experiment import EXPERIMENT
from lsa_jax.experiments.transformers.one_layer import strictly_correct
from lsa_jax.experiments.transformers.sampler import all_sets, permutation_matrix
from lsa_jax.experiments.transformers.tasks import make_lists
from lsa_jax.reporting.files import read_all_metrics
from lsa_jax.sweep.run import run_sweep
from lsa_jax.training import segments

TINY = {"sweep.cases": ((5, 3, 2),)}
TRAINING = {
    "question": "value_random",
    "learning_rate": 5.0,
    "steps": 60,
    "eval_every": 20,
    "checkpoint_every": 1,
    "sweep.value_scale": (4.0,),
    "sweep.randomness": (0.1, 1.0),
    "sweep.seed": (0, 1),
}


make = maker(settings, TINY)


def sweep(directory, **fields):
    config, points = make(**fields)
    return run_sweep(config, points, directory, data_dir=None, command=["test"])


def test_a_sweep_takes_the_step_exactly_and_by_sampling(tmp_path):
    results = sweep(
        tmp_path / "out",
        question="value_step",
        lists="cyclic",
        sweep__cases=((20, 5, 3),),
        sweep__num_sequences=(50, 2000),
    )
    assert results["gradient"].tolist() == ["exact", "sampled", "sampled"]
    # All sequences are counted where none is drawn.
    assert results["num_sequences"].isna().tolist() == [True, False, False]
    exact, few, many = results["correlation"]
    assert few < many < exact + 0.02
    assert (tmp_path / "out" / "value_step.png").stat().st_size > 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    directory = tmp_path_factory.mktemp("training") / "out"
    return directory, sweep(directory, **TRAINING)


@pytest.mark.parametrize("randomness", [0.0, 0.3, 1.0])
def test_a_run_starts_between_the_permutation_and_uniform_values_and_is_measured_there(randomness):
    fields = {**TRAINING, "sweep.cases": ((20, 3, 2),), "sweep.randomness": (randomness,)}
    config = make(**fields)[1][0].config
    sequences = jnp.asarray(all_sets(20, 3))
    task = make_lists(config)
    replica = training.make_replica(config, task, sequences)
    v, p = np.asarray(replica.start["v"], float), permutation_matrix(task.pi)
    noise = v / 4 - (1 - randomness) * p  # the scale is 4
    assert np.abs(noise).max() <= randomness + 1e-6
    # Of 400 uniform entries: mean 0 and variance 1/3.
    assert abs(noise.mean()) <= 4 * randomness * (1 / 3 / 400) ** 0.5
    np.testing.assert_allclose(noise.std(), randomness * 3**-0.5, rtol=0.1)
    state = training.AttentionState(replica.start, jnp.array(True))
    _, row = training.advance(5.0, state, replica, sequences, jnp.int32(0))
    np.testing.assert_allclose(
        row["correlation"], np.corrcoef(v.ravel(), p.ravel())[0, 1], rtol=1e-5
    )
    np.testing.assert_allclose(row["distance"], np.abs(v / 4 - p).max(), rtol=1e-5)
    right = np.mean(v.argmax(axis=0) == p.argmax(axis=0))
    assert row["columns_right"] == pytest.approx(right) and (right == 1) == (randomness < 0.5)
    correct = strictly_correct(replica.start, sequences, replica.labels)
    assert row["accuracy"] == pytest.approx(np.mean(correct)) and row["perfect"] == 0.0


def test_training_succeeds_from_near_the_permutation(trained):
    directory, results = trained
    near = results[results["randomness"] == 0.1]
    assert (near["success"] == 1).all() and (near["first_perfect"] > 0).all()
    assert (results["start_distance"] <= 2 * results["randomness"]).all()
    course = read_all_metrics(directory, near["id"].iloc[0])
    for name in ("accuracy", "loss", "columns_right", "correlation"):
        assert near[name].iloc[0] == course[-1][name]
    assert course[-1]["loss"] < course[1]["loss"]
    assert len(EXPERIMENT.groups(make(**TRAINING)[1])) == 1
    assert (directory / "value_random.png").stat().st_size > 0


def test_measures_along_training_change_nothing(trained, tmp_path):
    names = ("kernel_distance", "weight_movement")
    fields = {"measures": names, "measured_examples": 8}
    results = sweep(tmp_path / "out", **TRAINING, **fields)
    own = [name for name in trained[1] if name not in ("seconds", "id")]
    pd.testing.assert_frame_equal(results[own], trained[1][own])
    # W starts at 0.
    assert (results["kernel_distance"] > 1e-4).all() and (results["weight_movement/v"] > 0).all()
    course = read_all_metrics(tmp_path / "out", results["id"][0])
    assert [row["step"] for row in course if "kernel_distance" in row] == [0, 20, 40, 60]
    assert (tmp_path / "out" / "measures.png").stat().st_size > 0


def test_training_that_was_cut_short_goes_on_with_the_same_numbers(trained, tmp_path, monkeypatch):
    _, points = make(**TRAINING)
    save, saved = segments.checkpoints.save, []

    def save_and_die(directory, step, tree):
        save(directory, step, tree)
        saved.append(step)
        if step == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(segments.checkpoints, "save", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.run(points, None, tmp_path, lambda fraction: None)
    outcomes = EXPERIMENT.run(points, None, tmp_path, lambda fraction: None)
    assert saved == [1, 2, 3]
    for name in ("loss", "accuracy", "correlation", "success"):
        assert [o.metrics[name] for o in outcomes] == trained[1][name].tolist()


def test_training_that_leaves_the_finite_numbers_has_failed(tmp_path):
    _, points = make(**TRAINING | {"sweep.value_scale": (3e38,), "sweep.seed": (0,)})
    outcomes = EXPERIMENT.run(points[1:], None, tmp_path, lambda fraction: None)
    assert outcomes[0].status == "failed" and "lower config.learning_rate" in outcomes[0].message
