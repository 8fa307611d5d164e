"""Digits on their backgrounds, and the training of their networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.learning_rates.settings import SETTINGS
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields

SMALL = {
    "data.num_train": 24,
    "data.num_test": 12,
    "data.test_copies": 3,
    "data.background_size": 11,
    "data.noise": 0.5,
    "model.name": "mlp",
    "model.widths": (6,),
    "batch_size": 10,
    "measured_examples": 8,
}


def point_of(**fields):
    return Point("", {}, set_fields(SETTINGS.default_config(), SMALL | fields))


@pytest.fixture(scope="module")
def read():
    point = point_of()
    return digits.task_of(point, digits.load([point], None))


def test_a_digit_is_in_a_corner_of_noise_that_is_its_own(read):
    config = point_of().config
    images = np.asarray(digits.whole(config, digits.TRAIN, read.train).inputs)
    assert images.shape == (24, 11, 11, 1) and len(read.test.targets) == 36  # three copies
    corners, outside = set(), []
    for image, digit in zip(images, np.asarray(read.train.images), strict=True):
        ink = digit > 0
        for i, j in ((0, 0), (0, 3), (3, 0), (3, 3)):
            if np.allclose(image[i : i + 8, j : j + 8][ink], digit[ink], atol=1e-6):
                corners.add((i, j))
                mask = np.ones(image.shape, bool)
                mask[i : i + 8, j : j + 8] = False
                outside.append(image[mask])
    assert len(corners) == 4 and len(outside) == 24
    assert np.std(outside) == pytest.approx(0.5, rel=5 / np.size(outside) ** 0.5)
    # Draws depend on seed, split and example alone.
    key = digits.data_key(config)
    few = digits.compose(config, digits.TRAIN, read.train, key, jnp.array([7, 3]))
    np.testing.assert_array_equal(few.inputs, images[[7, 3]])
    other = digits.compose(config, digits.TEST, read.train, key, jnp.array([7, 3]))
    assert (other.inputs != few.inputs).any()


def test_rates_rise_over_the_warm_up_s_steps_with_the_factors_of_the_parameterisation(read):
    fields = {"parameterization": "mup", "width_factor": 2, "optimizer": "momentum"}
    fields |= {"momentum": 0.5, "schedule": "constant", "warmup_epochs": 2.0, "epochs": 4}
    config = point_of(**fields).config
    model = digits.build(config)
    params = digits.initial(config, model, read)
    rule = digits.optimizer_of(config, model, read, 0.3)
    ones, factors = jax.tree.map(jnp.ones_like, params), model.rate_factors((11, 11, 1), "momentum")
    assert len({float(np.ravel(f)[0]) for f in jax.tree.leaves(factors)}) > 1
    state, velocity = rule.init(params), 0.0
    for step in range(8):  # three steps an epoch
        updates, state = rule.update(ones, state, params)
        velocity = 0.5 * velocity + 1
        scale = -0.3 * min((step + 1) / 6, 1) * velocity
        for update, factor in zip(jax.tree.leaves(updates), jax.tree.leaves(factors), strict=True):
            np.testing.assert_allclose(update, scale * factor + 0 * update, rtol=1e-5)


@pytest.fixture(scope="module")
def trained(read, tmp_path_factory):
    """Returns the outcomes of a group with two rates and seeds, by output scale."""
    group = [point_of(seed=seed, epochs=3, schedule="constant") for seed in (3, 4)]
    return {
        scale: digits.train(
            group,
            read,
            [0.2 * min(scale, 1), 0.1],
            tmp_path_factory.mktemp("checkpoints"),
            lambda fraction: None,
            output_scale=scale,
            measures=("weight_movement",) if scale != np.inf else (),
        )[1]
        for scale in (0.5, 1e3, np.inf)
    }


def test_at_a_large_scale_a_network_is_its_linearisation(trained):
    rich, lazy, linear = (trained[scale][0].metrics for scale in (0.5, 1e3, np.inf))
    assert lazy["train_loss"] == pytest.approx(linear["train_loss"], abs=1e-3)
    assert abs(rich["train_loss"] - linear["train_loss"]) > 0.01
    # Of the network's own weights, not of the weights that its change is trained by.
    movement = [m["weight_movement/Dense_0"] for m in (rich, lazy)]
    assert movement[1] < 0.005 and 0.1 < movement[0] < 10
    assert "weight_movement/Dense_0" not in linear


def test_points_of_a_group_have_their_own_rate_seed_and_answers(trained, read, tmp_path):
    point, progress = point_of(seed=4, epochs=3, schedule="constant"), []
    options = {"output_scale": 0.5, "measures": ()}
    _, (alone,) = digits.train([point], read, [0.1], tmp_path, progress.append, **options)
    first, second = trained[0.5]
    for name, value in alone.metrics.items():
        assert second.metrics[name] == pytest.approx(value, rel=1e-4)
    assert first.metrics["train_loss"] != pytest.approx(second.metrics["train_loss"], rel=1e-3)
    np.testing.assert_array_equal(alone.outcomes.values, second.outcomes.values)
    assert alone.metrics["test_accuracy"] == pytest.approx(alone.outcomes.values.mean())
    # The images of a test set are the same for all seeds.
    assert first.outcomes.test == second.outcomes.test != "" and progress[-1] == 1
