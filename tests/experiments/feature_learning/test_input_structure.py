import jax
import numpy as np
import pandas as pd
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning.input_structure import settings
from lsa_jax.experiments.feature_learning.input_structure.experiment import teacher_loss
from lsa_jax.experiments.feature_learning.input_structure.report import (
    _student_claims,
    local_minimum,
)
from lsa_jax.experiments.feature_learning.input_structure.tasks import load, mix
from lsa_jax.sweep.points import make_points
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


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_mixture_has_its_share_of_injected_inputs_and_none_twice(share):
    config = settings.default_config()
    with config.unlocked():
        config.sweep.share = (share,)
    point = make_points(config, settings.sweep(config), settings.validate)[-1]
    rows = mix(point, 0, 40)
    assert len(set(rows.tolist())) == 40 and (rows >= 40).sum() == share * 40
    np.testing.assert_array_equal(rows, mix(point, 0, 40))
    assert (rows != mix(point, 1, 40)).any()


def test_injected_inputs_have_each_pixel_s_mean_and_variance_only_where_asked():
    for law, near in (("standard", False), ("pixelwise", True)):
        fields = {"data.dataset": "digits", "data.gaussian_law": law, "data.num_train": 1000}
        config = set_fields(settings.default_config(), fields)
        (point, *_) = make_points(config, settings.sweep(config), settings.validate)
        train = load([point], None).train.inputs[..., 0].astype(np.float64)
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
    students["test_accuracy"] = students["test_labelled_part"] + 0.009
    direct = pd.DataFrame({"size": [9, 9], "test_accuracy": [0.969, 0.971]})
    claims = _student_claims(students, direct, students, 10**7)
    assert [claim.ours for claim in claims] == pytest.approx([-1.9, 1.0, 1.0, 1.0])
    assert [claim.status for claim in claims] == [status] * 4
