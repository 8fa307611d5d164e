import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning.input_structure import settings, tasks
from lsa_jax.experiments.feature_learning.input_structure.experiment import teacher_loss
from lsa_jax.experiments.feature_learning.input_structure.report import draw_curves
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


@pytest.mark.parametrize(("sizes", "shape"), [((5,), (1, 1)), (tuple(range(2, 8)), (2, 4))])
def test_panels_of_students_stand_four_in_a_row(sizes, shape):
    rows = pd.DataFrame({"teacher_size": 5, "share": 0.5, "size": sizes, "injected": "gaussian"})
    rows = rows.assign(learner="student", step=1, seed=0, test_accuracy=0.5)
    rows = rows.assign(test_labelled_part=0.6, test_injected_part=0.4)
    fields = {"sweep.teacher_size": (5,), "sweep.size": sizes}
    figure = draw_curves(set_fields(settings.default_config(), fields), rows)
    assert figure.axes[0].get_gridspec().get_geometry() == shape
    assert [axis.get_title() for axis in figure.axes if axis.axison] == [
        f"teacher 5, student {size}, share 0.5" for size in sizes
    ]
    plt.close(figure)
