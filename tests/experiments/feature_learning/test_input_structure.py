"""Teachers and students of input structure: data, losses and a whole run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import maker, swept

from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.input_structure import experiment
from lsa_jax.experiments.feature_learning.input_structure.experiment import (
    Material,
    load,
    mix,
    teacher_loss,
)
from lsa_jax.experiments.feature_learning.input_structure.settings import SETTINGS
from lsa_jax.models.model import Model
from lsa_jax.reporting import files, outcomes

TINY = {
    "data.dataset": "digits",
    "data.num_train": 60,
    "data.num_test": 40,
    "batch_size": 20,
    "teacher_epochs": 2,
    "epochs": 2,
    "sweep.direct_size": (3,),
    "sweep.teacher_size": (4,),
    "sweep.size": (3,),
    "sweep.share": (0.0, 0.25, 0.5),
    "sweep.seed": (0, 1),
}
make = maker(SETTINGS, TINY)


def test_the_teachers_loss_is_cross_entropy_on_labels_and_the_regulariser_elsewhere():
    generator = np.random.default_rng(0)
    outputs = generator.normal(size=(6, 3)).astype(np.float32)
    targets = np.zeros((6, 3), np.float32)
    targets[[0, 2], [1, 0]] = 1
    f = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    crossed = -(np.log(f[0, 1]) + np.log(f[2, 0])) / 2
    rest = f[[1, 3, 4, 5]]
    mean = rest.mean(axis=0)
    r1 = (mean * np.log(mean)).sum()
    r2 = -(rest * np.log(rest)).sum(axis=1).mean()
    mean_and_slope = jax.jit(
        jax.value_and_grad(lambda o, targets: teacher_loss(2.0, 0.3, o, targets).mean())
    )
    found, _ = mean_and_slope(outputs, targets)
    assert found == pytest.approx(crossed + 2.0 * (r1 + 0.3 * r2), rel=1e-5)
    # A batch may hold labelled examples alone.
    alone, slope = mean_and_slope(outputs[[0, 2]], targets[[0, 2]])
    assert alone == pytest.approx(crossed, rel=1e-5) and np.isfinite(slope).all()
    # Classes that no injected input is given.
    assert np.isfinite(mean_and_slope(1e3 * outputs, targets)[1]).all()


@pytest.mark.parametrize(
    ("share", "labelled", "injected"),
    [(0.0, 40, 0), (0.25, 40, 13), (0.5, 40, 40), (0.75, 13, 40), (1.0, 0, 40)],
)
def test_a_mixture_is_as_much_of_the_union_as_has_the_share(share, labelled, injected):
    point = make(sweep__share=(share,))[1][-1]
    rows = mix(point, 0, 40)
    assert len(set(rows.tolist())) == len(rows) == labelled + injected
    assert (rows >= 40).sum() == injected
    np.testing.assert_array_equal(rows, mix(point, 0, 40))
    assert (rows != mix(point, 1, 40)).any()


@pytest.mark.parametrize("law", ["standard", "pixelwise"])
def test_gaussian_inputs_are_independent_pixels_of_a_law_and_other_ones_for_the_test(law):
    points = make(data__gaussian_law=law, data__num_train=1000)[1]
    train, test = (
        part.inputs[..., 0].astype(np.float64) for part in load(points, None)["gaussian"]
    )
    labelled, injected = train[:1000], train[1000:]
    means, stds = labelled.mean(axis=0), labelled.std(axis=0)
    if law == "standard":
        means, stds = np.zeros_like(means), np.ones_like(stds)
    # Of 1,000 draws of a deviation of 1.2 at most: five standard errors.
    np.testing.assert_allclose(injected.mean(axis=0), means, atol=0.2)
    np.testing.assert_allclose(injected.std(axis=0), stds, atol=0.2)
    inner = np.corrcoef(injected.reshape(1000, 64)[:, 10:14].T)
    assert np.abs(inner - np.eye(4)).max() < 0.2
    assert (injected[:40] != test[40:]).any()


def test_injected_pictures_are_standardised_as_the_labelled_images_and_come_again(monkeypatch):
    """Pictures of one grey each, twice the labelled ones' side, so that resizing keeps the grey."""
    rng = np.random.default_rng(0)
    labelled = [rng.uniform(size=(n, 4, 4, 3)).astype(np.float32) for n in (20, 9)]
    grey = [np.linspace(0.1, 0.9, n, dtype=np.float32) for n in (6, 30)]
    pictures = [np.tile(g[:, None, None, None], (1, 8, 8, 3)) for g in grey]
    sets = {
        name: ImageSet(
            *(Dataset(x, (np.arange(len(x)) % 2).astype(np.int32)) for x in parts), ("a", "b")
        )
        for name, parts in (("cifar10", labelled), ("tiny_imagenet", pictures))
    }
    monkeypatch.setattr(experiment.images, "load", lambda name, data_dir: sets[name])
    fields = {"data__dataset": "cifar10", "data__injected": "tiny_imagenet"}
    points = make(**fields, data__num_train=20, data__num_test=9)[1]
    (material,) = load(points, None).values()
    mean, std = labelled[0].mean(), labelled[0].std()
    for part, images, shades, count in zip(material, labelled, grey, (20, 9), strict=True):
        found = part.inputs * std + mean
        order = [int(np.abs(images - one).sum(axis=(1, 2, 3)).argmin()) for one in found[:count]]
        assert sorted(order) == list(range(count))
        np.testing.assert_allclose(found[:count], images[order], atol=1e-5)
        np.testing.assert_array_equal(part.targets[:count], np.eye(2)[np.array(order) % 2])
        assert len(found) == 2 * count and not part.targets[count:].any()
        # Each picture is of one grey: of 6 for 20 images all come, three or four times.
        which = np.abs(found[count:, 0, 0, :1] - shades[None]).argmin(axis=1)
        np.testing.assert_allclose(found[count:, 0, 0, 0], shades[which], atol=1e-5)
        assert np.ptp(np.bincount(which, minlength=len(shades))) <= 1


@pytest.fixture
def material():
    """Inputs that are their own number, labelled ones first, of four classes."""

    def split(count):
        inputs = np.arange(2 * count, dtype=np.float32)[:, None, None, None]
        labels = np.eye(4, dtype=np.float32)[np.arange(count) % 4]
        return Dataset(inputs, np.concatenate([labels, 0 * labels]))

    return Material(split(8), split(6))


def test_a_teacher_is_measured_on_labelled_test_inputs_and_by_its_use_of_classes(material):
    train = np.array([0, 1, 2, 3, 0, 1, 2, 3] + [0, 0, 0, 1, 1, 0, 2, 2])
    test = np.array([0, 1, 2, 0, 0, 3] + [0] * 6)
    assert experiment._teacher_measures({"train": train, "test": test}, material) == {
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


def test_a_student_s_targets_are_its_teacher_s_label_and_whether_inputs_are_injected(material):
    replica = {"train_rows": jnp.array([9, 3, 12]), "train_labels": jnp.arange(16) % 4}
    index, epoch = jnp.array([2, 0, 1]), jnp.int32(7)
    inputs = jnp.asarray(material.train.inputs)
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


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    config, points = make()
    folder = tmp_path_factory.mktemp("structure") / "out"
    return points, folder, swept(config, points, folder)


def test_accuracies_of_parts_add_up_to_that_of_the_mixture(finished):
    _, folder, results = finished
    assert (results["status"] == "ok").all() and len(results) == 8
    sizes = {0.0: (40, 0), 0.25: (40, 13), 0.5: (40, 40)}
    for row in results[results["learner"] == "student"].to_dict("records"):
        labelled, injected = sizes[row["share"]]
        right = labelled * row["test_labelled_part"]
        right += injected * (row["test_injected_part"] if injected else 0)
        assert row["test_accuracy"] * (labelled + injected) == pytest.approx(right, abs=1e-3)
        assert np.isnan(row["test_injected_part"]) == (injected == 0)
        assert [r["epoch"] for r in files.read_metrics(folder, row["id"])] == [1, 2]
    # Seeds have a teacher each, which all their students share.
    teachers = results[results["learner"] == "student"].groupby("seed")["teacher_accuracy"]
    assert (teachers.nunique() == 1).all()
    assert (results["parameters"] == 64 * 3 + 3 + 3 * 10 + 10).all()


def test_outcomes_are_in_the_order_of_the_test_inputs_where_seeds_share_them(finished):
    points, folder, results = finished
    kept = outcomes.read(folder, results["id"])
    rows = results.set_index("id")
    tests = {}
    for point in points:
        share = point.config.share if point.config.learner == "student" else "direct"
        if share == 0.25:  # each seed draws its own subset of the injected ones
            assert point.id not in kept
            continue
        found = kept[point.id]
        tests.setdefault(share, set()).add(found.test)
        row = rows.loc[point.id]
        assert found.values.mean() == pytest.approx(row["test_accuracy"])
        if share == 0.5:
            assert found.values[:40].mean() == pytest.approx(row["test_labelled_part"])
            assert found.values[40:].mean() == pytest.approx(row["test_injected_part"])
    assert tests["direct"] == tests[0.0] and len(tests[0.0]) == len(tests[0.5]) == 1
    assert tests[0.5] != tests[0.0]
