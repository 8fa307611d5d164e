"""Teachers and students of input structure: what they are given, and what is measured of them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import training
from lsa_jax.experiments.feature_learning.input_structure import experiment, settings
from lsa_jax.experiments.feature_learning.input_structure.tasks import Inputs, Material
from lsa_jax.models.model import Model
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields

COUNTS = {"train": 8, "test": 6}


def point_of(**fields):
    own = {"learner": "student", "share": 0.5, "size": 2, "seed": 0} | fields
    config = set_fields(settings.default_config(), {"data.dataset": "digits", **own})
    return Point("_".join(map(str, own.values())), {}, config)


@pytest.fixture
def material():
    """Inputs that are their own number, labelled ones first, of four classes."""

    def split(count):
        inputs = np.arange(2 * count, dtype=np.float32)[:, None, None, None]
        labels = np.eye(4, dtype=np.float32)[np.arange(count) % 4]
        return Inputs(inputs, np.concatenate([labels, 0 * labels]))

    return Material(*(split(count) for count in COUNTS.values()))


def test_a_teacher_is_right_on_labelled_test_inputs_and_uses_classes_of_injected_ones(material):
    train = np.array([0, 1, 2, 3, 0, 1, 2, 3] + [0, 0, 0, 1, 1, 0, 2, 2])
    test = np.array([0, 1, 2, 0, 0, 3] + [0] * 6)
    found = experiment._teacher_measures({"train": train, "test": test}, material)
    assert found == {
        "teacher_accuracy": pytest.approx(4 / 6),
        "least_used_class": 0.0,  # no injected input is given the last one
        "most_used_class": pytest.approx(4 / 8),
    }


def test_a_network_s_labels_come_in_the_order_of_its_inputs_from_batches_of_one_size():
    sizes = []

    def apply(params, x):
        sizes.append(len(x))
        return -jnp.square(jnp.arange(4.0)[None] - params * x.reshape(-1, 1))

    inputs = np.random.default_rng(0).integers(0, 4, (11, 1, 1, 1)).astype(np.float32) / 2
    model = Model(lambda *given: None, apply, None)
    found = experiment._labels(model, jnp.float32(2.0), inputs, 4)
    np.testing.assert_array_equal(found, 2 * inputs.ravel())
    assert set(sizes) == {4}


def test_a_student_s_targets_say_its_teacher_s_label_and_what_is_injected(material):
    replica = {"train_rows": jnp.array([9, 3, 12]), "train_labels": jnp.arange(16) % 4}
    inputs = jnp.asarray(material.train.inputs)
    index, epoch = jnp.array([2, 0, 1]), jnp.int32(7)
    batch = experiment._mixed("train", 4, inputs, replica, index, epoch)
    assert batch.inputs.ravel().tolist() == [12, 9, 3]
    assert batch.targets[:, :4].argmax(axis=1).tolist() == [0, 1, 3]
    assert batch.targets[:, 4].tolist() == [1, 1, 0]  # from number 8 on
    outputs = jnp.array([[9.0, 0, 0, 0], [9.0, 0, 0, 0], [0, 0, 0, 9.0]])
    found = {name: f(outputs, batch.targets) for name, f in experiment._student_metrics().items()}
    assert {name: values.tolist() for name, values in found.items()} == {
        "accuracy": [1, 0, 1],
        "labelled_part": [0, 0, 1],
        "injected_part": [1, 0, 0],
    }
    logs = np.asarray(jax.nn.log_softmax(outputs))[np.arange(3), [0, 1, 3]]
    np.testing.assert_allclose(experiment._student_loss(outputs, batch.targets), -logs, rtol=1e-5)


@pytest.mark.parametrize(
    ("share", "labelled", "injected"), [(0.5, 6, 6), (0.25, 6, 2), (0.75, 2, 6)]
)
def test_parts_are_shares_of_their_own_inputs_in_the_mixture(share, labelled, injected):
    of_test = {"test_labelled_part": 0.3, "test_injected_part": 0.15, "test_accuracy": 0.45}
    rows = [
        {"epoch": 1, "test_accuracy": np.array([0.9, 0.9])},
        {"epoch": 4} | {name: np.array([9.0, value]) for name, value in of_test.items()},
    ]
    history = training.History(rows, {}, None)
    extra = {"parameters": 3}
    found = experiment._outcome(point_of(share=share, size=9), history, 1, COUNTS, extra)
    whole = labelled + injected
    assert found.metrics == {
        **{"learner": "student", "size": 9, "seed": 0, "parameters": 3, "test_accuracy": 0.45},
        "test_labelled_part": pytest.approx(0.3 * whole / labelled),
        "test_injected_part": pytest.approx(0.15 * whole / injected),
    }
    assert found.history[0] == {"epoch": 1, "test_accuracy": 0.9}
    assert found.history[1]["epoch"] == 4


def test_a_mixture_without_a_part_has_no_accuracy_there_and_failures_are_told():
    rows = [
        {"epoch": 1, "test_labelled_part": np.array([0.4]), "test_injected_part": np.array([0.0])}
    ]
    history = training.History(rows, {}, None)
    found = experiment._outcome(point_of(share=0.0), history, 0, COUNTS, {})
    assert found.metrics["test_labelled_part"] == pytest.approx(0.4)
    assert np.isnan(found.metrics["test_injected_part"])
    lost = history._replace(failures={0: "its own"})
    for given, extra, told in (
        (history, {"failure": "of the teacher"}, "of the teacher"),
        (lost, {}, "its own"),
        (lost, {"failure": "of the teacher"}, "of the teacher"),
    ):
        outcome = experiment._outcome(point_of(share=0.0), given, 0, COUNTS, dict(extra))
        assert (outcome.status, outcome.message, outcome.metrics) == ("failed", told, {})


@pytest.mark.parametrize("learner", ["student", "direct"])
def test_students_of_a_size_and_share_are_replicas_after_their_teachers(
    material, monkeypatch, learner
):
    trained, told = [], []

    def teach(group, data, directory, progress):
        progress(0.5)
        return {0: {}, 1: {}}, {0: {"teacher_accuracy": 0.7}, 1: {"teacher_accuracy": 0.8}}

    def train(points, *given):
        *_, place, progress = given
        progress(0.5)
        trained.append(([p.config.seed for p in points], str(place), len(given)))
        return training.History([], {}, None)

    def outcome(point, history, replica, counts, extra):
        return Outcome({"replica": replica, **counts, **extra, "size": point.config.size}, [])

    monkeypatch.setattr(experiment, "_teach", teach)
    monkeypatch.setattr(experiment, "_train_students", train)
    monkeypatch.setattr(experiment, "_train_directly", train)
    monkeypatch.setattr(experiment, "_outcome", outcome)
    monkeypatch.setattr(experiment, "num_parameters", lambda config, data: 10 * config.size)
    kinds = [(2, 0.5), (3, 0.25)] if learner == "student" else [(2, 0.5), (3, 0.5)]
    group = [
        point_of(learner=learner, size=size, share=share, seed=seed)
        for seed in (0, 1)
        for size, share in kinds
    ]
    found = experiment.run(group, {"gaussian": material}, Path("out"), told.append)
    is_student = learner == "student"
    places = ["2_0.5", "3_0.25"] if is_student else ["2", "3"]
    given = 4 if is_student else 3
    assert trained == [([0, 1], f"out/{place}", given) for place in places]
    shares = [0.5 / 3, 1.5 / 3, 2.5 / 3] if is_student else [0.25, 0.75]
    assert told == pytest.approx(shares)
    # In the order of the points.
    assert [o.metrics["size"] for o in found] == [2, 3, 2, 3]
    assert [o.metrics["replica"] for o in found] == [0, 0, 1, 1]
    assert [o.metrics["parameters"] for o in found] == [20, 30, 20, 30]
    assert all((o.metrics["train"], o.metrics["test"]) == (8, 6) for o in found)
    if is_student:
        assert [o.metrics["teacher_accuracy"] for o in found] == [0.7, 0.7, 0.8, 0.8]
        assert [o.metrics["share"] for o in found] == [0.5, 0.25, 0.5, 0.25]
