"""The dial's runs: what they train, and that its two ends are what they should be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels, training
from lsa_jax.errors import InputError
from lsa_jax.experiments.lazy_rich import networks, tasks
from lsa_jax.experiments.lazy_rich.coordinate_check import experiment as coordinate_check
from lsa_jax.experiments.lazy_rich.coordinate_check import settings as coordinate_settings
from lsa_jax.experiments.lazy_rich.dial import experiment, settings
from lsa_jax.experiments.lazy_rich.learning_rates import experiment as learning_rates
from lsa_jax.experiments.lazy_rich.learning_rates import settings as rate_settings
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

SMALL = {
    "data.num_train": 24,
    "data.num_test": 12,
    "model.channels": (2, 3),
    "batch_size": 8,
}


def run(of, its_settings, sweep, directory, **fields):
    """Returns the metrics of every point, in order."""
    config = set_fields(its_settings.default_config(), SMALL | fields)
    points = make_points(config, sweep, its_settings.validate)
    data = of.load(points, None)
    found = {}
    for group in of.groups(points):
        outcomes = of.run(group, data, directory / group[0].id, lambda fraction: None)
        found |= {p.id: o.metrics for p, o in zip(group, outcomes, strict=True)}
    return points, data, [found[point.id] for point in points]


@pytest.mark.slow  # five programs to compile, a quarter of a minute
def test_at_a_large_scale_a_network_is_its_linearisation(tmp_path):
    sweep = [
        {"learner": "network", "output_scale": 1e3},
        {"learner": "network", "output_scale": 0.5},
        {"learner": "linearized"},
        {"learner": "ntk_finite"},
    ]
    fields = {"epochs": 3, "measured_examples": 8, "schedule": "constant", "rates.standard": 1.0}
    points, data, found = run(experiment, settings, sweep, tmp_path, **fields)
    lazy, rich, linear, exact = found
    assert lazy["train_loss"] == pytest.approx(linear["train_loss"], abs=1e-3)
    assert abs(rich["train_loss"] - linear["train_loss"]) > 0.01
    assert lazy["kernel_distance"] < 1e-4 < rich["kernel_distance"]
    task = tasks.task_of(points[3], data)
    train, test = (tasks.whole(points[3].config, which, split) for which, split in enumerate(task))
    model = networks.build(points[3].config)
    start = networks.initial(points[3].config, model, task)
    ntk = kernels.empirical_ntk(model.apply, start, jnp.concatenate([*test[:1], *train[:1]]))
    fit = kernels.regress(
        np.asarray(ntk[12:, 12:]), train.targets, np.asarray(ntk[:12, 12:]), ridge=1e-3
    )
    correct = training.is_correct(fit.predictions, test.targets).mean()
    assert exact["test_accuracy"] == pytest.approx(float(correct))


def test_rates_fall_with_small_scales_and_with_the_width_of_the_standard_one():
    def rate(parameterization, width, scale):
        own = {"parameterization": parameterization, "width_factor": width, "output_scale": scale}
        return experiment.rate_of(set_fields(settings.default_config(), own))

    assert rate("standard", 4, 16.0) == pytest.approx(0.025)
    assert rate("mup", 4, 16.0) == rate("mup", 1, 1.0) == pytest.approx(0.1)
    assert rate("ntk", 4, 0.25) == pytest.approx(2.0)


def test_the_dial_measures_no_less_than_its_report_draws():
    config = set_fields(settings.default_config(), {"measures": ("kernel_distance",)})
    with pytest.raises(InputError, match="config.measures is .*accepted: .*and more"):
        settings.validate(config)


def test_an_image_that_does_not_fit_its_background_is_refused():
    config = set_fields(settings.default_config(), {"data.image_size": 9})
    with pytest.raises(InputError, match="config.data.image_size is 9; accepted: at most"):
        settings.validate(config)


@pytest.mark.parametrize("parameterization", ["mup", "ntk"])
def test_steps_of_the_coordinate_check_are_those_of_training(tmp_path, parameterization):
    own = {"parameterization": parameterization, "width_factor": 2, "seed": 3}
    fields = {"steps": 4, "rates.sgd": 0.5, "ntk_factor": 1.5, "measures": ("weight_movement",)}
    points, data, (found,) = run(
        coordinate_check, coordinate_settings, [{"optimizer": "sgd"} | own], tmp_path, **fields
    )
    config, task = points[0].config, tasks.task_of(points[0], data)
    model = networks.build(config)
    start = model.init(networks.run_key(config), (8, 8, 1))

    @jax.jit
    def change(params, x):
        return model.apply(params, x) - model.apply(start, x)

    def loss(params, x, y):
        return jnp.mean(-jnp.sum(y * jax.nn.log_softmax(change(params, x)), axis=1))

    slope, now = jax.jit(jax.grad(loss)), start
    factors = jax.tree.map(lambda p: 0.5 * 1.5, start)
    if parameterization == "mup":
        of_model = model.rate_factors((8, 8, 1), "sgd")
        factors = jax.tree.map(lambda f: 0.5 * f, of_model)
    for step in range(4):  # of 24 examples, 8 a step: the first come again in the fourth
        index = jnp.arange(8 * step, 8 * step + 8) % 24
        batch = tasks.compose(config, 0, task.train, tasks.data_key(config), index)
        now = jax.tree.map(lambda p, g, r: p - r * g, now, slope(now, *batch), factors)
    x, _ = tasks.compose(config, 0, task.train, tasks.data_key(config), jnp.arange(8))
    changed = float(np.sqrt(np.mean(change(now, x) ** 2)))
    assert changed > 1e-3
    assert found["change/outputs"] == pytest.approx(changed, rel=1e-3)
    name, readout = "Dense_0", jax.tree.leaves(now["Dense_0"])
    begun = jax.tree.leaves(start["Dense_0"])
    moved = sum(float(jnp.sum((a - b) ** 2)) for a, b in zip(readout, begun, strict=True))
    size = sum(float(jnp.sum(b**2)) for b in begun)
    assert found[f"weight_movement/{name}"] == pytest.approx((moved / size) ** 0.5, rel=1e-3)


def test_rates_are_replicas_and_one_that_diverges_is_an_outcome(tmp_path):
    sweep = [
        {"parameterization": "standard", "learning_rate": rate, "seed": 0}
        for rate in (0.02, 0.1, 1e30)
    ]
    fields = {"epochs": 1, "model.name": "mlp", "model.widths": (8,), "output_scale": 1.0}
    fields |= {"measures": ("kernel_distance", "weight_movement"), "measured_examples": 8}
    points, _, found = run(learning_rates, rate_settings, sweep, tmp_path, **fields)
    assert [len(group) for group in learning_rates.groups(points)] == [3]
    assert [metrics["diverged"] for metrics in found] == [False, False, True]
    assert found[0]["train_loss"] != found[1]["train_loss"] and "train_loss" not in found[2]
    # Of the network's own weights, not of those that its change is trained by.
    slow, fast = (metrics["weight_movement/Dense_0"] for metrics in found[:2])
    assert 0 < slow < fast < 10 and found[1]["kernel_distance"] > found[0]["kernel_distance"] > 0
    assert "kernel_distance" not in found[2]
