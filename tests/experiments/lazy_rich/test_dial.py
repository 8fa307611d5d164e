"""Runs of the dial, of learning rates and of the coordinate check."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.coordinate_check import experiment as coordinate_check
from lsa_jax.experiments.lazy_rich.coordinate_check.settings import SETTINGS as COORDINATES
from lsa_jax.experiments.lazy_rich.dial import experiment as dial
from lsa_jax.experiments.lazy_rich.dial.settings import SETTINGS
from lsa_jax.experiments.lazy_rich.learning_rates import experiment as learning_rates
from lsa_jax.experiments.lazy_rich.learning_rates.settings import SETTINGS as RATES
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training import measures

SMALL = {
    "data.num_train": 24,
    "data.num_test": 12,
    "model.name": "mlp",
    "model.widths": (6,),
    "batch_size": 8,
}


def run(of, its_settings, sweep, directory, progress=lambda fraction: None, **fields):
    """Returns the points, their data, and the outcome of every point, in order."""
    config = set_fields(its_settings.default_config(), SMALL | fields)
    points = make_points(config, sweep, its_settings.validate)
    data, found = of.EXPERIMENT.load(points, None), {}
    for group in of.EXPERIMENT.groups(points):
        outcomes = of.run(group, data, directory / group[0].id, progress)
        found |= {p.id: outcome for p, outcome in zip(group, outcomes, strict=True)}
    return points, data, [found[point.id] for point in points]


def test_rates_fall_with_small_scales_and_with_the_width_of_the_standard_one():
    def rate(parameterization, width, scale, **model):
        own = {"parameterization": parameterization, "width_factor": width, "output_scale": scale}
        own |= {f"model.{name}": value for name, value in model.items()}
        return dial.rate_of(set_fields(SETTINGS.default_config(), own))

    assert rate("standard", 4, 16.0) == pytest.approx(0.025)
    assert rate("mup", 4, 16.0) == rate("mup", 1, 1.0) == pytest.approx(0.1)
    # Two convolutions and a readout; a hidden layer and a readout.
    assert rate("ntk", 4, 0.125) == pytest.approx(8.0 / 16)
    assert rate("ntk", 4, 0.125, name="mlp", widths=(6,)) == pytest.approx(1.0)


def test_the_coordinate_check_s_rate_of_sgd_has_a_factor_in_the_ntk_parameterisation():
    fields = {"rates.sgd": 0.5, "rates.adam": 0.25, "ntk_factor": 3.0, "width_factor": 8}
    for optimizer, name, rate in (
        ("sgd", "ntk", 1.5),
        ("sgd", "mup", 0.5),
        ("adam", "ntk", 0.25),
        ("adam", "standard", 0.25),
    ):
        own = fields | {"optimizer": optimizer, "parameterization": name}
        config = set_fields(COORDINATES.default_config(), own)
        assert coordinate_check.rate_of(config) == pytest.approx(rate)


def test_the_dial_trains_networks_at_their_scale_and_linearisations_at_infinity(
    tmp_path, monkeypatch
):
    given = []

    def train(group, task, rates, directory, progress, **options):
        given.append((len(group), rates, *options.values()))
        starts = [digits.initial(p.config, digits.build(p.config), task) for p in group]
        params = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
        moved = Outcome({"weight_movement/a": 1.0, "weight_movement/b": 4.0}, [])
        return params, [moved] * len(group)

    monkeypatch.setattr(digits, "train", train)
    own = (("network", 1), ("network", 2), ("linearized", 1))
    sweep = [{"learner": name, "output_scale": 0.5, "seed": seed} for name, seed in own]
    _, _, found = run(dial, SETTINGS, sweep, tmp_path, **{"rates.standard": 0.2})
    measures = SETTINGS.default_config().measures
    assert given == [(2, [0.1, 0.1], 0.5, measures), (1, [0.1], np.inf, ())]
    assert found[0].metrics["weight_movement"] == 2.5 and found[0].metrics["num_test"] == 12


def test_the_exact_regression_has_the_kernel_of_the_network_s_jacobians(tmp_path):
    sweep = [{"learner": "ntk_finite"}]
    (point,), data, (outcome,) = run(dial, SETTINGS, sweep, tmp_path, ridge=0.3)
    config, task = point.config, digits.task_of(point, data)
    model = digits.build(config)
    params = digits.initial(config, model, task)
    x = np.concatenate([digits.whole(config, which, task[which]).inputs for which in (0, 1)])
    slopes = jax.tree.leaves(jax.jit(jax.jacrev(model.apply))(params, x))
    flat = [np.reshape(j, (36, 10, -1)) for j in slopes]
    whole = sum(np.einsum("ncp,mcp->nm", j, j) for j in flat) / 10
    targets = np.asarray(task.train.targets)
    fit = kernels.regress(whole[:24, :24], targets, whole[24:, :24], ridge=0.3)
    right = fit.predictions.argmax(axis=1) == np.asarray(task.test.targets).argmax(axis=1)
    np.testing.assert_array_equal(outcome.outcomes.values, right)
    classes = np.asarray(task.test.targets).sum(axis=0)
    expected = {"test_accuracy": right.mean(), "num_test": 12, "chance": classes.max() / 12}
    assert outcome.metrics.pop("left_out") > 0
    assert outcome.metrics == pytest.approx(expected | {"ridge": 0.3})


def test_kernels_after_training_follow_their_networks_and_c_is_of_both_ends(tmp_path, monkeypatch):
    kept, train = [], digits.train

    def watched(*given, **options):
        kept.append(train(*given, **options))
        return kept[-1]

    monkeypatch.setattr(digits, "train", watched)
    names = ("network", "ntk_trained")
    sweep = [{"learner": n, "output_scale": 2.0, "seed": seed} for n in names for seed in (1, 2)]
    fields = {"ridge": None, "epochs": 3, "rates.standard": 0.5, "measures": ()}
    config = set_fields(SETTINGS.default_config(), SMALL | fields)
    points = make_points(config, sweep, lambda config: None)
    data = dial.EXPERIMENT.load(points, None)
    (group,) = dial.EXPERIMENT.groups(points)
    found, fractions = {}, []
    for point, outcome in zip(
        group, dial.run(group, data, tmp_path, fractions.append), strict=True
    ):
        found[point.config.learner, point.config.seed] = outcome
    assert fractions == sorted(fractions) and fractions[-1] == 1
    config, ((params, _),) = points[1].config, kept
    task, own = digits.task_of(points[1], data), jax.tree.map(lambda leaf: leaf[1], params)
    model, start = digits.build(config), digits.initial(config, digits.build(config), task)
    x, test = (digits.whole(config, which, task[which]).inputs for which in (0, 1))
    before, linear = jax.jvp(
        lambda p: model.apply(p, test), (start,), (jax.tree.map(jnp.subtract, own, start),)
    )
    change = model.apply(own, test) - before
    missed, change = (a - a.mean(1, keepdims=True) for a in (change - linear, change))
    c = found["network", 2].metrics["linearization_error"]
    assert c == pytest.approx(np.linalg.norm(missed) / np.linalg.norm(change), rel=1e-3) and c > 0
    gram, cross = (kernels.empirical_ntk(model.apply, own, *pair) for pair in ((x,), (test, x)))
    targets = np.asarray(task.train.targets)
    ridge = kernels.leave_one_out_ridge(gram, targets, [10.0**power for power in range(-6, 2)])
    right = kernels.regress(gram, targets, cross, ridge=ridge).predictions.argmax(axis=1)
    trained = found["ntk_trained", 2]
    assert trained.metrics["ridge"] == ridge
    np.testing.assert_array_equal(
        trained.outcomes.values, right == np.asarray(task.test.targets).argmax(axis=1)
    )
    assert trained.outcomes.test == found["network", 2].outcomes.test


def test_rates_are_replicas_and_one_that_diverges_is_an_outcome(tmp_path, monkeypatch):
    given = []

    def train(group, task, rates, directory, progress, **options):
        given.append((rates, *options.values()))
        lost = Outcome({}, [{"epoch": 1}], "failed", "too fast")
        return None, [Outcome({"train_loss": 0.5}, []), lost, Outcome({"train_loss": 0.25}, [])]

    monkeypatch.setattr(digits, "train", train)
    sweep = [{"learning_rate": rate, "seed": 0} for rate in (0.02, 1e30, 0.1)]
    options = {"output_scale": 2.0, "measures": ("weight_movement",)}
    _, _, found = run(learning_rates, RATES, sweep, tmp_path, **options)
    assert given == [([0.02, 1e30, 0.1], 2.0, ("weight_movement",))]
    assert {outcome.status for outcome in found} == {"ok"}
    slow, lost, fast = (outcome.metrics for outcome in found)
    assert slow == {"diverged": False, "train_loss": 0.5} and lost == {"diverged": True}
    assert fast["train_loss"] == 0.25 and found[1].history == [{"epoch": 1}]


@pytest.mark.parametrize(("parameterization", "seeds"), [("mup", (3,)), ("ntk", (3, 5))])
def test_steps_of_the_coordinate_check_are_those_of_training(tmp_path, parameterization, seeds):
    own = {"optimizer": "sgd", "parameterization": parameterization, "width_factor": 2}
    fields = {"steps": 4, "rates.sgd": 0.5, "ntk_factor": 1.5, "measures": ("weight_movement",)}
    sweep, progress = [own | {"seed": seed} for seed in seeds], []
    points, data, found = run(
        coordinate_check, COORDINATES, sweep, tmp_path, progress.append, **fields
    )
    assert progress == [(place + 1) / len(seeds) for place in range(len(seeds))]
    config, task = points[-1].config, digits.task_of(points[-1], data)
    model, key = digits.build(config), digits.data_key(config)
    start = model.init(digits.run_key(config), (8, 8, 1))

    @jax.jit
    def change(params, x):
        return model.apply(params, x) - model.apply(start, x)

    def loss(params, x, y):
        return jnp.mean(-jnp.sum(y * jax.nn.log_softmax(change(params, x)), axis=1))

    slope, now = jax.jit(jax.grad(loss)), start
    factors = jax.tree.map(lambda p: 0.5 * 1.5, start)
    if parameterization == "mup":
        factors = jax.tree.map(lambda f: 0.5 * f, model.rate_factors((8, 8, 1), "sgd"))
        assert len({float(np.ravel(f)[0]) for f in jax.tree.leaves(factors)}) > 1
    for step in range(4):  # of 24 examples, 8 a step: the first come again in the fourth
        index = jnp.asarray(np.arange(8 * step, 8 * step + 8) % 24)
        batch = digits.compose(config, 0, task.train, key, index)
        now = jax.tree.map(lambda p, g, r: np.asarray(p - r * g), now, slope(now, *batch), factors)
    x, _ = digits.compose(config, 0, task.train, key, jnp.arange(8))
    changed = float(np.sqrt(np.mean(np.square(change(now, x)))))
    assert changed > 1e-3
    assert found[-1].metrics["change/outputs"] == pytest.approx(changed, rel=1e-3)
    before, after = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree["Dense_1"])])
        for tree in (start, now)
    )
    moved = np.linalg.norm(after - before) / np.linalg.norm(before)
    rows = [(row["step"], row["weight_movement/Dense_1"]) for row in found[-1].history]
    assert rows == [(0, 0.0), (4, pytest.approx(moved, rel=1e-3))]
    assert found[-1].metrics["weight_movement/Dense_1"] == rows[-1][1]


def test_measures_of_the_coordinate_check_are_on_each_seed_s_backgrounds(tmp_path):
    fields = {"steps": 2, "rates.sgd": 0.5, "measures": ("kernel_distance",)}
    fields |= {"measured_examples": 24, "data.background_size": 11, "data.noise": 0.5}
    sweep = [{"optimizer": "sgd", "seed": seed} for seed in (3, 5)]
    points, data, found = run(coordinate_check, COORDINATES, sweep, tmp_path, **fields)
    for point, outcome in zip(points, found, strict=True):
        task, config = digits.task_of(point, data), point.config
        model, key = digits.build(config), digits.data_key(config)
        check = coordinate_check.make_check(config, task)(digits.run_key(config), key)
        x = digits.compose(config, 0, task.train, key, jnp.arange(24)).inputs
        distance = measures.kernel_distance(model.apply, check.start, check.params, x)
        assert outcome.metrics["kernel_distance"] == pytest.approx(float(distance), rel=1e-3)


def test_steps_that_diverge_are_a_run_that_failed(tmp_path):
    own = {"optimizer": "sgd", "parameterization": "standard", "seed": 0}
    options = {"steps": 4, "rates.sgd": 1e30}
    _, _, (found,) = run(coordinate_check, COORDINATES, [own], tmp_path, **options)
    assert found.status == "failed" and found.message
