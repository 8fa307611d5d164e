"""The dial's runs: what they train, and that its two ends are what they should be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import models, training
from lsa_jax.errors import InputError
from lsa_jax.experiments.lazy_rich import networks, tasks
from lsa_jax.experiments.lazy_rich.coordinate_check import experiment as coordinate_check
from lsa_jax.experiments.lazy_rich.coordinate_check import settings as coordinate_settings
from lsa_jax.experiments.lazy_rich.dial import experiment, settings
from lsa_jax.experiments.lazy_rich.learning_rates import experiment as learning_rates
from lsa_jax.experiments.lazy_rich.learning_rates import settings as rate_settings
from lsa_jax.models.scaled import FROZEN
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

SMALL = {
    "data.num_train": 24,
    "data.num_test": 12,
    "model.name": "mlp",
    "model.widths": (6,),
    "batch_size": 8,
}


def run(of, its_settings, sweep, directory, told=lambda fraction: None, **fields):
    """Returns the points, their data, and the outcome of every point, in order."""
    config = set_fields(its_settings.default_config(), SMALL | fields)
    points = make_points(config, sweep, its_settings.validate)
    data = of.load(points, None)
    found = {}
    for group in of.groups(points):
        outcomes = of.run(group, data, directory / group[0].id, told)
        found |= {p.id: outcome for p, outcome in zip(group, outcomes, strict=True)}
    return points, data, [found[point.id] for point in points]


@pytest.mark.slow  # three networks to compile, with all measures
def test_at_a_large_scale_a_network_is_its_linearisation(tmp_path):
    sweep = [
        {"learner": "network", "output_scale": 1e3},
        {"learner": "network", "output_scale": 0.5},
        {"learner": "linearized"},
    ]
    fields = {"epochs": 3, "measured_examples": 8, "schedule": "constant", "rates.standard": 0.2}
    _, _, found = run(experiment, settings, sweep, tmp_path, **fields)
    lazy, rich, linear = (outcome.metrics for outcome in found)
    assert lazy["train_loss"] == pytest.approx(linear["train_loss"], abs=1e-3)
    assert abs(rich["train_loss"] - linear["train_loss"]) > 0.01
    assert lazy["kernel_distance"] < 1e-5 and rich["kernel_distance"] > 0.05
    assert lazy["weight_movement"] < 0.005 and rich["weight_movement"] > 0.2
    assert "kernel_distance" not in linear and lazy["num_test"] == linear["num_test"] == 12


def test_a_group_is_trained_at_its_scale_and_a_run_that_fails_says_so(tmp_path, monkeypatch):
    given = []

    def train(group, task, model, rates, loss, directory, progress, frozen, measuring):
        given.append((len(group), model, rates, loss, frozen, measuring))
        rows = [{"epoch": 0, "weight_movement/a": np.zeros(2), "weight_movement/b": np.zeros(2)}]
        rows += [{"epoch": 3, "train_loss": np.array([0.5, 0.25]), "test_accuracy": np.ones(2)}]
        rows[1] |= {"weight_movement/a": np.array([1, 7.0]), "weight_movement/b": np.full(2, 4.0)}
        return {}, training.History(rows, {1: "too fast"}, None, (8, 0.1))

    monkeypatch.setattr(networks, "train", train)
    learners = {"network": 0.5, "linearized": np.inf}
    own = (("network", 1), ("network", 2), ("linearized", 1))
    sweep = [{"learner": name, "output_scale": 0.5, "seed": seed} for name, seed in own]
    fields = {"rates.standard": 0.2, "measured_examples": 8}
    points, _, found = run(experiment, settings, sweep, tmp_path, **fields)
    model = networks.build(points[0].config)
    params = {"initial": {"w": jnp.ones(2)}, "moved": {"w": jnp.full(2, 3.0)}}
    for (learner, scale), count, own in zip(learners.items(), (2, 1), given, strict=True):
        assert own[0] == count and own[1] is models.scaled(model, scale)
        assert own[2:5] == ([0.1] * count, training.softmax_cross_entropy, FROZEN)
        measuring = own[5]
        assert measuring.names == (settings.MEASURES if learner == "network" else ())
        assert (measuring.examples, measuring.apply) == (8, model.apply)
        # What is measured is the network that has moved by as much over the scale.
        np.testing.assert_allclose(measuring.network(params)["w"], 1 + 3 / scale)
    first, second = found[:2]
    of_layers = {"weight_movement/a": 1.0, "weight_movement/b": 4.0, "weight_movement": 2.5}
    sizes = {"num_test": 12, "chance": pytest.approx(2 / 12)}
    ends = {"train_loss": 0.5, "test_accuracy": 1.0, **sizes}
    assert first.metrics == {**ends, **of_layers, "measured_examples": 8}
    assert (first.status, second.status, second.message) == ("ok", "failed", "too fast")
    assert second.metrics == sizes
    assert [outcome.history[1]["train_loss"] for outcome in (first, second)] == [0.5, 0.25]


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


@pytest.mark.parametrize(("parameterization", "seeds"), [("mup", (3,)), ("ntk", (3, 5))])
def test_steps_of_the_coordinate_check_are_those_of_training(
    tmp_path, monkeypatch, parameterization, seeds
):
    own = {"optimizer": "sgd", "parameterization": parameterization, "width_factor": 2}
    fields = {"steps": 4, "rates.sgd": 0.5, "ntk_factor": 1.5, "measures": ("weight_movement",)}
    told, asked, course_of = [], [], coordinate_check.course_of
    monkeypatch.setattr(
        coordinate_check, "course_of", lambda *given: asked.append(given) or course_of(*given)
    )
    points, data, found = run(
        coordinate_check,
        coordinate_settings,
        [own | {"seed": seed} for seed in seeds],
        tmp_path,
        told.append,
        **fields,
    )
    assert told == [(place + 1) / len(seeds) for place in range(len(seeds))]
    config, task = points[-1].config, tasks.task_of(points[-1], data)
    model, key = networks.build(config), tasks.data_key(config)
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
        assert len({float(np.ravel(f)[0]) for f in jax.tree.leaves(of_model)}) > 1
        factors = jax.tree.map(lambda f: 0.5 * f, of_model)
    for step in range(4):  # of 24 examples, 8 a step: the first come again in the fourth
        index = jnp.asarray(np.arange(8 * step, 8 * step + 8) % 24)
        batch = tasks.compose(config, 0, task.train, key, index)
        now = jax.tree.map(lambda p, g, r: np.asarray(p - r * g), now, slope(now, *batch), factors)
    x, _ = tasks.compose(config, 0, task.train, key, jnp.arange(8))
    changed = float(np.sqrt(np.mean(np.square(change(now, x)))))
    assert changed > 1e-3
    assert found[-1].metrics["change/outputs"] == pytest.approx(changed, rel=1e-3)
    # Measured are the start and the end; measures may cost a share of what all examples do.
    ((*_, fetch, num_examples, marks, seen),) = asked
    assert (num_examples, marks, seen) == (24, [0, 4], 4 * 8)
    np.testing.assert_array_equal(fetch(len(seeds) - 1, jnp.arange(8)).inputs, x)
    before, after = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree["Dense_1"])])
        for tree in (start, now)
    )
    moved = np.linalg.norm(after - before) / np.linalg.norm(before)
    rows = found[-1].history
    assert [(row["step"], row["weight_movement/Dense_1"]) for row in rows] == [
        (0, 0.0),
        (4, pytest.approx(moved, rel=1e-3)),
    ]
    assert found[-1].metrics["weight_movement/Dense_1"] == rows[-1]["weight_movement/Dense_1"]


def test_steps_that_diverge_are_a_run_that_failed(tmp_path):
    own = {"optimizer": "sgd", "parameterization": "standard", "width_factor": 1, "seed": 0}
    fields = {"steps": 4, "measures": ("weight_movement",)}
    for rate, status in ((0.01, "ok"), (1e30, "failed")):
        options = fields | {"rates.sgd": rate}
        _, _, (found,) = run(coordinate_check, coordinate_settings, [own], tmp_path, **options)
        assert found.status == status and bool(found.message) == (status == "failed")


def test_rates_are_replicas_and_one_that_diverges_is_an_outcome(tmp_path):
    sweep = [
        {"parameterization": "standard", "learning_rate": rate, "seed": 0}
        for rate in (0.02, 1e30, 0.1)
    ]
    fields = {"epochs": 1, "output_scale": 1.0, "measured_examples": 8}
    fields |= {"measures": ("kernel_distance", "weight_movement")}
    points, _, outcomes = run(learning_rates, rate_settings, sweep, tmp_path, **fields)
    assert [len(group) for group in learning_rates.groups(points)] == [3]
    slow, lost, fast = (outcome.metrics for outcome in outcomes)
    assert [metrics["diverged"] for metrics in (slow, lost, fast)] == [False, True, False]
    assert slow["train_loss"] != fast["train_loss"] and "train_loss" not in lost
    # Of the network's own weights, not of those that its change is trained by.
    moved = [metrics["weight_movement/Dense_0"] for metrics in (slow, fast)]
    assert 0 < moved[0] < moved[1] < 10
    assert fast["kernel_distance"] > slow["kernel_distance"] > 0
    assert "kernel_distance" not in lost


def test_one_rate_of_a_network_without_a_scale_is_a_group(tmp_path, monkeypatch):
    given = []

    def train(group, task, model, rates, loss, directory, progress, frozen, measuring):
        given.append((model, rates, frozen, measuring))
        rows = [{"epoch": 1, "train_loss": np.array([0.5])}]
        return {}, training.History(rows, {}, None)

    monkeypatch.setattr(networks, "train", train)
    points, _, (found,) = run(
        learning_rates, rate_settings, [{"learning_rate": 0.3}], tmp_path, measured_examples=7
    )
    model = networks.build(points[0].config)
    measuring = training.Measuring((), 7, model.apply)
    assert given == [(model, [0.3], (), measuring)]
    assert found.metrics == {"diverged": False, "train_loss": 0.5}
