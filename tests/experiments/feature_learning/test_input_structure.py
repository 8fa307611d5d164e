import jax
import numpy as np
import pandas as pd
import pytest

from lsa_jax.data._image_set import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning import tables
from lsa_jax.experiments.feature_learning.input_structure import settings, tasks
from lsa_jax.experiments.feature_learning.input_structure.claims import (
    Labels,
    _injected_claims,
    size_gap_claims,
    student_claims,
)
from lsa_jax.experiments.feature_learning.input_structure.experiment import groups, teacher_loss
from lsa_jax.experiments.feature_learning.input_structure.sizes import (
    _same_minimum_claims,
    choice_claims,
    local_minimum,
    size_claims,
)
from lsa_jax.experiments.feature_learning.input_structure.tasks import load, mix
from lsa_jax.sweep.points import Point, make_points
from lsa_jax.sweep.variants import set_fields


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
    config = settings.default_config()
    with config.unlocked():
        config.sweep.share = (share,)
    point = make_points(config, settings.sweep(config), settings.validate)[-1]
    rows = mix(point, 0, 40)
    assert len(set(rows.tolist())) == len(rows) == labelled + injected
    assert (rows >= 40).sum() == injected
    np.testing.assert_array_equal(rows, mix(point, 0, 40))
    assert (rows != mix(point, 1, 40)).any()


def test_injected_inputs_have_each_pixel_s_mean_and_variance_only_where_asked():
    for law, near in (("standard", False), ("pixelwise", True)):
        fields = {"data.dataset": "digits", "data.gaussian_law": law, "data.num_train": 1000}
        config = set_fields(settings.default_config(), fields)
        (point, *_) = make_points(config, settings.sweep(config), settings.validate)
        train = load([point], None)["gaussian"].train.inputs[..., 0].astype(np.float64)
        labelled, injected = train[:1000], train[1000:]
        means, stds = (np.abs(f(injected, axis=0) - f(labelled, axis=0)) for f in (np.mean, np.std))
        # Of 1,000 draws of a deviation of 1.2 at most: five standard errors.
        assert (max(means.max(), stds.max()) < 0.2) == near
        # Pixels are drawn independently, which an image's are not.
        inner = np.corrcoef(injected.reshape(1000, 64)[:, 10:14].T)
        assert np.abs(inner - np.eye(4)).max() < 0.2
    fields = {"data.gaussian_law": "pixelwise", "data.injected": "tiny_imagenet"}
    config = set_fields(settings.default_config(), fields | {"data.dataset": "cifar10"})
    with pytest.raises(InputError, match="gaussian_law"):
        settings.validate(config)


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
    monkeypatch.setattr(tasks.images, "load", lambda name, data_dir: sets[name])
    fields = {"data.dataset": "cifar10", "data.injected": "tiny_imagenet"}
    fields |= {"data.num_train": 20, "data.num_test": 9, "sweep.injected": ("tiny_imagenet",)}
    config = set_fields(settings.default_config(), fields)
    (material,) = load([Point("", {}, config)], None).values()
    mean, std = labelled[0].mean(), labelled[0].std()
    for part, images, shades, count in zip(material, labelled, grey, (20, 9), strict=True):
        assert part.inputs.shape == (2 * count, 4, 4, 3)
        found = part.inputs[:count] * std + mean
        order = [int(np.abs(images - one).sum(axis=(1, 2, 3)).argmin()) for one in found]
        assert sorted(order) == list(range(count))
        np.testing.assert_allclose(found, images[order], atol=1e-5)
        np.testing.assert_array_equal(part.targets[:count], np.eye(2)[np.array(order) % 2])
        assert not part.targets[count:].any()
        # Each picture is of one grey: of 6 for 20 images all come, three or four times.
        again = part.inputs[count:] * std + mean
        assert np.ptp(again, axis=(1, 2, 3)).max() < 1e-5
        which = np.abs(again[:, 0, 0, :1] - shades[None]).argmin(axis=1)
        np.testing.assert_allclose(again[:, 0, 0, 0], shades[which], atol=1e-5)
        times = np.bincount(which, minlength=len(shades))
        assert times.max() - times.min() <= 1


def test_gaussian_inputs_are_standard_and_other_ones_for_the_test():
    shapes = [(40, 6, 6, 2), (30, 6, 6, 2)]
    config = set_fields(settings.default_config(), {"data.injected": "gaussian"})
    train, test = tasks._injected(config, shapes, None)
    assert train.shape == shapes[0] and test.shape == shapes[1]
    for part in (train, test):
        error = 5 / part.size**0.5
        assert abs(part.mean()) < error and abs(part.std() - 1) < error
    assert (train[:30] != test).any()


def test_the_first_minimum_is_where_the_next_size_is_worse():
    assert local_minimum([2, 5, 9, 20, 50], [0.5, 0.4, 0.3, 0.35, 0.2]) == 9
    assert local_minimum([2, 5], [0.5, 0.4]) == 5


@pytest.mark.parametrize(
    ("accuracies", "status"),
    [((0.9509, 0.951, 0.9511), "shown"), ((0.903, 0.950, 1.0), "undecided")],
)
def test_differences_between_students_and_direct_training_count_beyond_their_spread(
    accuracies, status
):
    # In the mean 1.9 points below direct training, where 2 are allowed, and 1 above injected ones.
    students = pd.DataFrame({"test_labelled_part": accuracies, "seed": (0, 1, 2)}).assign(
        learner="student", teacher_size=9, share=0.5, size=9, test_injected_part=0.941
    )
    students["injected"] = "gaussian"
    students["test_accuracy"] = students["test_labelled_part"] + 0.009
    direct = pd.DataFrame({"size": 9, "seed": (0, 1, 2), "test_accuracy": [0.9699, 0.97, 0.9701]})
    labels = Labels(10**7, seeds=(0, 1, 2))
    *claims, whole = student_claims(students, direct, students, labels)
    names = ["minus direct training", "part at the end", "same labels alone", "over training"]
    assert all(name in claim.item for name, claim in zip(names, claims, strict=True))
    missing = claims.pop(2)
    assert (missing.status, missing.note) == ("not run", "what it is held against is not there")
    claims.append(whole)
    assert [claim.ours for claim in claims] == pytest.approx([-1.9, 1.0, 1.0, 1.0])
    assert [claim.status for claim in claims] == [status] * 4
    # The teacher's labels alone are half a point easier than the data set's.
    control = students.assign(share=0.0, test_injected_part=np.nan)
    control["test_labelled_part"] = [0.9749, 0.975, 0.9751]
    with_control = student_claims(pd.concat([students, control]), direct, students, labels)
    (alone,) = (claim for claim in with_control if "same labels alone" in claim.item)
    assert alone.ours == pytest.approx(-2.4)
    assert alone.status == ("not shown" if status == "shown" else status)
    assert [c.ours for c in with_control if c is not alone] == [c.ours for c in claims]


@pytest.mark.parametrize(
    ("least", "status"), [((9,) * 4, "shown"), ((9, 9, 25), "not shown"), ((9,) * 3, "undecided")]
)
def test_the_teacher_s_size_is_what_algorithm_1_chooses_in_every_seed(least, status):
    rows = [
        {"learner": "direct", "size": size, "seed": seed}
        | {"test_loss": 0.2 + 0.1 * (size != best) + 1e-6 * seed}
        for seed, best in enumerate(least)
        for size in (2, 9, 25, 50)
    ]
    teachers = {"learner": "student", "teacher_size": [9, 25], "size": 9, "seed": 0}
    students = pd.DataFrame(teachers)
    fine = pd.concat([pd.DataFrame(rows), students], ignore_index=True)
    (claim,) = choice_claims(fine)
    assert (claim.paper, claim.status) == ("9", status)


@pytest.mark.parametrize("variant", ["full", "small"])
@pytest.mark.parametrize(("teacher", "student"), [(5, 9), (2, 8)])
def test_algorithm_1_has_resnets_on_either_side_of_the_teacher_to_choose_from(
    variant, teacher, student
):
    config = tables.resnet_students(variant, {}, teacher=teacher, student=student)
    sizes = config.sweep.direct_size
    assert min(sizes) < teacher < max(sizes) and {teacher, student} <= set(sizes)
    rows = [
        {"learner": "direct", "size": size, "seed": 0, "test_loss": 1 + abs(np.log(size / teacher))}
        for size in sizes
    ]
    of_teacher = {"learner": "student", "teacher_size": teacher, "size": student, "seed": 0}
    (claim,) = choice_claims(pd.concat([pd.DataFrame(rows), pd.DataFrame([of_teacher])]))
    assert claim.ours == f"{teacher}"


@pytest.mark.parametrize(
    ("gaps", "status"),
    [
        ((0.2, 0.21, 0.19), "shown"),
        ((0.05, 0.06, 0.04), "not shown"),
        ((0.2, 0.1, 0.06), "undecided"),
    ],
)
def test_a_larger_student_parts_the_inputs_more_where_its_gap_is_larger_in_each_seed(gaps, status):
    # Of the smaller student's 10 points.
    labels = Labels(10**5, seeds=(0, 1, 2))
    (claim,) = size_gap_claims(gap_rows((0.1, 0.1001, 0.1), gaps), labels)
    assert claim.status == status
    (none,) = size_gap_claims(gap_rows((0.1, 0.1, 0.0), (0.2, 0.21, 0.1)), labels)
    assert (none.status, none.note) == ("undecided", "the injected part is not worse")


def gap_rows(least, most):
    rows = [
        {"teacher_size": 9, "share": 0.5, "size": size, "seed": seed}
        | {"test_labelled_part": 0.9, "test_injected_part": 0.9 - gap}
        for size, of in ((9, least), (50, most))
        for seed, gap in enumerate(of)
    ]
    return pd.DataFrame(rows)


def of_sizes(best, learner="student", teacher=9, losses=(1.0, 0.5)):
    """Returns a curve of loss against size a seed, whose first minimum is at the size given."""
    worse, least = losses
    return [
        {"learner": learner, "size": size, "seed": seed, "teacher_size": teacher, "share": 1.0}
        | {"test_loss": (least if size == where else worse) + 1e-6 * seed}
        for seed, where in enumerate(best)
        for size in (2, 9, 25, 50)
    ]


@pytest.mark.parametrize(
    ("larger", "status"),
    [((25, 25, 25), "shown"), ((9, 25, 25), "undecided"), ((2, 25, 25), "not shown")],
)
def test_best_sizes_move_right_where_no_seeds_moves_left(larger, status):
    fine = pd.DataFrame([*of_sizes((9, 9, 9)), *of_sizes(larger, teacher=50)])
    claim, *_ = size_claims(fine)
    assert claim.status == status and f"share 1: {np.mean(larger):g}" in claim.ours


def test_labels_that_no_student_learns_have_no_best_size():
    """A constant's loss is log 10 = 2.30; below 0.95 of it something was learned."""
    for least, learned in ((2.18, True), (2.19, False)):
        rows = [*of_sizes((9, 9)), *of_sizes((25, 25), teacher=50, losses=(2.3, least))]
        claim, *losses = size_claims(pd.DataFrame(rows))
        assert ("teacher of size 50, share 1: not learned" in claim.ours) != learned
        assert learned or claim.status == "not shown"
        assert losses[1].item == "least test loss over sizes, teacher of size 50, share 1"
        assert [loss.status for loss in losses] == ["measured"] * 2 and losses[1].ours == least


def test_minima_are_the_same_where_they_are_neighbours_in_every_seed():
    fine = pd.DataFrame({"size": [2, 5, 9, 20, 50, 100, 250, 500]})
    seeds = pd.Series([9.0] * 5)
    for other, status in ((20.0, "shown"), (50.0, "not shown"), (np.nan, "not shown")):
        (claim,) = _same_minimum_claims(seeds, pd.Series([other] * 5), fine)
        assert claim.status == status
    (few,) = _same_minimum_claims(seeds[:1], seeds[:1], fine)
    assert few.status == "undecided"


def test_the_sweep_has_students_on_either_kind_and_one_reading_of_each():
    fields = {"data.dataset": "cifar10", "sweep.injected": ("gaussian", "tiny_imagenet")}
    config = set_fields(settings.default_config(), fields | {"sweep.seed": (0, 1)})
    points = make_points(config, settings.sweep(config), settings.validate)
    found = [(point.config.learner, point.config.data.injected) for point in points]
    assert found == [("direct", "gaussian")] * 2 + [
        ("student", kind) for kind in config.sweep.injected for _ in range(2)
    ]
    assert len(groups(points)) == 3


@pytest.mark.parametrize(
    ("tiny", "gaussian", "status"),
    [
        ((0.5, 0.51, 0.49), (0.2, 0.21, 0.19), "shown"),
        ((0.2, 0.21, 0.19), (0.5, 0.51, 0.49), "not shown"),
        ((0.5, 0.2, 0.35), (0.3, 0.2, 0.4), "undecided"),
    ],
)
def test_pictures_are_learned_better_than_gaussian_inputs_where_the_parts_say_so(
    tiny, gaussian, status
):
    rows = [
        {"injected": kind, "test_injected_part": value, "seed": seed}
        for kind, values in (("tiny_imagenet", tiny), ("gaussian", gaussian))
        for seed, value in enumerate(values)
    ]
    students = pd.DataFrame(rows).assign(teacher_size=5, share=0.5, size=9)
    labels = Labels(2000, seeds=(0, 1, 2))
    (claim,) = _injected_claims(students, labels)
    assert (claim.paper, claim.status) == ("above 0 (figure 23)", status)
    assert claim.ours == pytest.approx(100 * (np.mean(tiny) - np.mean(gaussian)), abs=0.01)
    assert _injected_claims(students[students["injected"] == "gaussian"], labels) == []


def test_students_of_the_teacher_that_algorithm_1_chose_for_their_seed_have_claims_of_their_own():
    chosen = (9, 15, 15, 9)
    direct = pd.DataFrame(
        {"learner": "direct", "size": size, "seed": seed, "test_accuracy": 0.9 + 0.001 * seed}
        | {"test_loss": 0.5 - 0.2 * (size == best) + 0.001 * seed}
        for seed, best in enumerate(chosen)
        for size in (5, 9, 15, 25)
    )
    students = pd.DataFrame(
        {"learner": "student", "size": 25, "seed": seed, "share": share, "injected": "gaussian"}
        | {"teacher_size": teacher, "test_accuracy": 0.8, "teacher_accuracy": 0.9}
        | {"test_labelled_part": teacher / 100 + 0.8, "test_injected_part": 0.7}
        for seed in range(4)
        for share in (0.0, 0.5)
        for teacher in (9, 15)
    )
    labels = Labels(10**6, seeds=range(4))
    claims = student_claims(students, direct, students, labels)
    own = [claim for claim in claims if "teachers by algorithm 1, student 25" in claim.item]
    assert [claim.paper for claim in own] == [claim.paper for claim in claims[:5]]
    (parts,) = [claim for claim in own if "part at the end" in claim.item]
    assert parts.ours == pytest.approx(100 * (np.mean(chosen) / 100 + 0.1))
    # A teacher that was chosen and that none had, and one that is the same in every seed.
    without = students[students["teacher_size"] == 9]
    one = direct[direct["seed"].isin((0, 3))]
    for some, of in ((without, direct), (students, one)):
        found = student_claims(some, of, some, labels)
        assert found and not any("algorithm" in claim.item for claim in found)
