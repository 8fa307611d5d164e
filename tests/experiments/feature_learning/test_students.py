"""Teachers and students of input structure: what they are given, and what is measured of them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import training
from lsa_jax.experiments.feature_learning.input_structure import experiment, settings
from lsa_jax.experiments.feature_learning.input_structure.tasks import Inputs, Material, mix
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
        "largest_label": pytest.approx(3 / 6),
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


@pytest.fixture
def fitted(monkeypatch, unchecked):
    """Records what networks are trained with. A network moves classes on by its one parameter."""
    seen = {}

    def apply(params, x):
        return -jnp.square(jnp.arange(4.0)[None] - (x.reshape(-1, 1) + params["shift"]) % 4)

    def build_model(config, size, num_classes):
        seen.update(size=size, num_classes=num_classes)
        return Model(lambda *given: None, apply, None)

    def train(keys, model, source, loss, optimizer, **options):
        seen.update(keys=keys, source=source, loss=loss, **options)
        params = {"shift": jnp.arange(len(keys), dtype=jnp.float32)}
        return params, training.History([], {1: "lost"}, None)

    monkeypatch.setattr(experiment, "build_model", build_model)
    monkeypatch.setattr(experiment.training, "train", train)
    return seen


def _numbers(keys):
    return np.asarray(jax.random.key_data(keys)).tolist()


def test_teachers_learn_both_kinds_of_inputs_and_label_all_in_their_order(material, fitted):
    fields = {"teacher_size": 7, "batch_size": 3, "teacher_epochs": 5, "regularizer": 2.0}
    group = [point_of(seed=seed, size=size, **fields) for size in (2, 3) for seed in (4, 6)]
    labels, measures = experiment._teach(group, material, Path("out"), lambda fraction: None)
    assert (fitted["size"], fitted["num_classes"]) == (7, 4)
    assert (fitted["epochs"], fitted["batch_size"]) == (5, 6)  # 3 of either kind
    assert fitted["checkpoints"].directory == Path("out/teacher")
    of_seeds = [jax.random.fold_in(jax.random.key(seed), 0) for seed in (4, 6)]
    assert _numbers(fitted["keys"]) == [_numbers(key) for key in of_seeds]
    np.testing.assert_array_equal(fitted["source"].inputs, material.train.inputs)
    assert sorted(labels) == [4, 6]
    for shift, seed in enumerate((4, 6)):
        for name, part in material._asdict().items():
            expected = (part.inputs.ravel() + shift) % 4
            np.testing.assert_array_equal(labels[seed][name], expected)
    assert "failure" not in measures[4] and measures[6]["failure"] == "lost"
    assert [measures[seed]["teacher_accuracy"] for seed in (4, 6)] == [1.0, 0.0]
    # The regulariser is of the inputs without a label: alone it is R1 + 0.1 R2, twice.
    outputs = np.array([[2.0, 0, 0, 0], [0, 1.0, 0, 0]], np.float32)
    f = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    mean = f.mean(axis=0)
    expected = 2 * ((mean * np.log(mean)).sum() - 0.1 * (f * np.log(f)).sum(axis=1).mean())
    found = fitted["loss"](jnp.asarray(outputs), jnp.zeros((2, 4))).mean()
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_students_of_a_seed_see_its_mixture_with_its_teacher_s_labels(material, fitted):
    fields = {"size": 9, "share": 0.25, "batch_size": 3, "epochs": 5, "eval_every": 2}
    points = [point_of(seed=seed, **fields) for seed in (4, 6)]
    labels = {
        seed: {
            name: (np.arange(len(part.inputs)) + seed) % 4
            for name, part in zip(material._fields, material, strict=True)
        }
        for seed in (4, 6)
    }
    given = (labels, material, Path("out"), lambda fraction: None)
    experiment._train_students(points[1:], *given)
    (rows,) = fitted["replicas"]["test_rows"]
    np.testing.assert_array_equal(rows, mix(points[1], 1, 6))
    experiment._train_students(points, *given)
    assert (fitted["size"], fitted["num_classes"]) == (9, 4)
    assert (fitted["epochs"], fitted["batch_size"]) == (5, 3)
    assert fitted["checkpoints"].directory == Path("out")
    assert fitted["evaluation"].every == 2
    sources = {"train": fitted["source"], "test": fitted["evaluation"].test}
    for which, (name, source) in enumerate(sources.items()):
        count = len(material[which].inputs)
        for place, point in enumerate(points):
            replica = {key: leaf[place] for key, leaf in fitted["replicas"].items()}
            rows = mix(point, which, count // 2)
            assert source.num_examples == len(rows)
            batch = source.fetch(source.arrays, replica, np.arange(len(rows)), 0)
            np.testing.assert_array_equal(batch.inputs.ravel(), rows)
            taught = labels[point.config.seed][name][rows]
            np.testing.assert_array_equal(np.argmax(batch.targets[:, :4], axis=1), taught)
            np.testing.assert_array_equal(batch.targets[:, 4], rows >= count // 2)
    targets = np.asarray(batch.targets)
    kept = fitted["evaluation"].measuring.targets(targets)
    np.testing.assert_array_equal(kept, targets[:, :4])


def test_networks_on_the_data_set_see_labelled_inputs_alone(material, fitted):
    fields = {"learner": "direct", "size": 9, "batch_size": 3, "epochs": 5, "eval_every": 2}
    points = [point_of(seed=seed, **fields) for seed in (4, 6)]
    for group in (points, points[:1]):
        experiment._train_directly(group, material, Path("out"), lambda fraction: None)
        assert (fitted["size"], fitted["num_classes"]) == (9, 4)
        assert (fitted["epochs"], fitted["batch_size"]) == (5, 3)
        assert fitted["evaluation"].every == 2 and len(fitted["keys"]) == len(group)
        for part, count, found in zip(
            material, (8, 6), (fitted["source"], fitted["evaluation"].test), strict=True
        ):
            np.testing.assert_array_equal(found.inputs, part.inputs[:count])
            np.testing.assert_array_equal(found.targets, part.targets[:count])
