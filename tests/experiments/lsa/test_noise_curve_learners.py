"""Learners of noise curves that follow a network, its dials, and the feature machine."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest
from reports import make_report
from small_noise_curves import configure, make_small, run

from lsa_jax import kernels, training
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import experiment, learners, tasks
from lsa_jax.experiments.lsa.noise_curves.experiment import EXPERIMENT
from lsa_jax.experiments.lsa.noise_curves.tasks import NoiseCurves

# Of a report against the number of examples, and of the results of one run.
BY_COUNT = {"figure_axis": "num_train", "sweep.num_train": (24,)}
ONE_SEED = {"status": "ok", "seed": 0}


def points_of(*names, **fields):
    sweep = [{"learner": name, "noise": noise, "seed": 1} for name in names for noise in (0.5, 1.0)]
    return make_small(sweep, **fields)


class Followed(NamedTuple):
    """A network at two noises with its follower; the network alone; matrices that were solved."""

    points: list
    outcomes: dict
    matrices: list
    alone: dict
    directory: Path


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    directory, matrices, solve = tmp_path_factory.mktemp("followed"), [], kernels.regress

    def watched(gram_train, *given, **options):
        matrices.append(np.array(gram_train))
        return solve(gram_train, *given, **options)

    points = points_of("network", "ntk_trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "regress", watched)
        outcomes = run(points, directory / "both")
        alone = run(points_of("network"), directory / "alone")
    return Followed(points, outcomes, matrices, alone, directory / "alone")


def test_the_kernel_after_training_is_that_of_the_networks_own_run(followed):
    """Against the network trained alone, its kernel by Jacobians and a plain solution."""
    alone = points_of("network")
    task = tasks.task_of(alone[0], EXPERIMENT.load(alone, None))
    model = experiment.build_model(alone[0].config, "network", 10)
    # Its last parameters, from its last checkpoint.
    directory = followed.directory / alone[0].id
    trained = learners.Trained(model)
    params, _ = experiment.train_group(alone, task, trained, directory, lambda f: None)
    for place, point in enumerate(alone):
        images = tasks.composed(point, task, tasks.TRAIN, np.arange(24)).inputs
        own = jax.tree.map(lambda leaf, place=place: leaf[place], params)
        ntk = kernels.empirical_ntk(model.apply, own, images, method="jacobian")
        seen = followed.matrices[place]
        np.testing.assert_allclose(seen, ntk, rtol=1e-3, atol=1e-5 * np.abs(ntk).max())
    found = [followed.outcomes[point.id] for point in followed.points]
    assert {outcome.status for outcome in found} == {"ok"}
    assert [o.metrics["learner"] for o in found] == ["network"] * 2 + ["ntk_trained"] * 2
    assert all(o.metrics["train_accuracy"] == 1 for o in found[2:])  # with hardly any ridge


def test_a_network_has_the_same_bits_whether_it_is_followed_or_not(followed, tmp_path):
    for point_id, outcome in followed.alone.items():
        assert outcome.metrics == followed.outcomes[point_id].metrics
    for point_id, outcome in run(points_of("ntk_trained"), tmp_path).items():
        assert outcome.metrics == followed.outcomes[point_id].metrics
    kept = [outcome.outcomes for outcome in followed.outcomes.values()]
    assert len({one.test for one in kept}) == 1 and kept[0].test
    for one, outcome in zip(kept, followed.outcomes.values(), strict=True):
        assert one.values.mean() == pytest.approx(outcome.metrics["test_accuracy"])


def test_at_a_large_output_scale_the_networks_kernel_stays(tmp_path):
    """So the NTK after training is the one before, though the network has learned."""
    fields = {
        "network.output_scale": 1e3,
        "ntk_finite.method": "regression",
        "ntk_finite.parameterization": "standard",
        "ntk_finite.ridge": (1e-3,),
        "ntk_trained.ridge": (1e-3,),
        "measures": ("kernel_distance", "weight_movement"),
        "measured_examples": 8,
    }
    sweep = [{"learner": n, "noise": 0.5} for n in ("network", "ntk_trained", "ntk_finite")]
    found = run(make_small(sweep, **fields), tmp_path).values()
    lazy, after, before = (outcome.metrics for outcome in found)
    assert lazy["train_loss"] < np.log(10) - 0.02
    assert 0 <= lazy["kernel_distance"] < 1e-4 and 0 < lazy["weight_movement/Conv_0"] < 1e-2
    assert 0 < lazy["linearization_error"] < 1e-2  # of the parameters that training began with
    assert after["test_accuracy"] == before["test_accuracy"]
    assert after["train_accuracy"] == before["train_accuracy"]


@pytest.mark.parametrize(("width", "wanted"), [(1, (1, 1, 1)), (4, (4, 1, 1 / 4))])
def test_mup_is_standard_at_width_factor_one_and_has_its_rates_at_another(
    monkeypatch, width, wanted
):
    fields = {"network.parameterization": "mup", "network.output_scale": 2.0}
    (point,) = make_small([{"noise": 0.5}], width_factor=width, **fields)
    model = experiment.build_model(point.config, "network", 10)
    given = {}

    def make(*_, **options):
        given.update(options)
        return optax.identity()

    monkeypatch.setattr(training, "make_optimizer", make)
    trained = learners.trained_network(model, point.config.network)
    experiment.make_optimizer(point.config.network, 1, trained, (16, 16, 1))
    factors = given["rate_factors"]
    assert set(factors) == {"moved"}  # frozen parameters have no rate
    rates = {layer: float(factor["weight"]) for layer, factor in factors["moved"].items()}
    assert rates == dict(zip(("Conv_0", "Conv_1", "Dense_0"), wanted, strict=True))
    if width == 1:
        (standard,) = make_small([{"noise": 0.5}])
        other = experiment.build_model(standard.config, "network", 10)
        key = jax.random.key(0)
        starts = [one.init(key, (16, 16, 1)) for one in (model, other)]
        jax.tree.map(np.testing.assert_array_equal, *starts)


def test_a_recursive_feature_machine_learns_from_the_points_own_images(tmp_path):
    """Its kernels and accuracies against the same by hand; killed, it goes on."""
    fields = {"rfm.updates": 2, "rfm.points": 9, "rfm.every_update": True}
    (point,) = points = points_of("rfm", **fields)[:1]
    fractions = []
    outcome = run(points, tmp_path, fractions.append)[point.id]
    assert (np.diff(fractions) >= 0).all() and fractions[-1] == 1
    task = tasks.task_of(point, EXPERIMENT.load(points, None))
    train = tasks.composed(point, task, tasks.TRAIN, np.arange(24))
    test = tasks.composed(point, task, tasks.TEST, np.arange(12))
    kernel = experiment.build_model(point.config, "rfm", 10).kernel
    machine = kernels.recursive_feature_machine(
        kernel.transformed,
        train.inputs,
        train.targets,
        key=jax.random.fold_in(jax.random.key(1), NoiseCurves.POINTS),
        size=9,
        updates=2,
        points=9,
        ridge=1e-5,
    )
    for update, transform in enumerate(machine.transforms):
        after = kernel.transformed(transform)
        matrices = (np.asarray(after(*x)) for x in ((train.inputs,), (test.inputs, train.inputs)))
        gram_train, gram_test = matrices
        fit = kernels.regress(gram_train, train.targets, gram_test, ridge=1e-5)
        accuracy = float(jnp.mean(training.is_correct(fit.predictions, test.targets)))
        assert outcome.metrics[f"test_accuracy_update_{update}"] == pytest.approx(accuracy)
        assert outcome.history[update]["test_accuracy"] == pytest.approx(accuracy)
    assert outcome.metrics["test_accuracy"] == outcome.metrics["test_accuracy_update_2"]
    assert run(points, tmp_path)[point.id].metrics == outcome.metrics
    alone = points_of("rfm", **fields | {"rfm.every_update": False})[:1]
    last = run(alone, tmp_path / "last")[point.id].metrics
    for name in ("test_accuracy", "train_accuracy"):
        assert last[name] == outcome.metrics[name]


def test_a_kernel_s_squared_error_is_reported_next_to_its_prediction(tmp_path):
    fields, sweep = {"ntk_infinite.ridge": (1e-2,)}, [{"learner": "ntk_infinite", "noise": 0.5}]
    points = make_small(sweep, predict=True, **fields)
    found = [outcome.metrics for outcome in run(points, tmp_path).values()]
    task = tasks.task_of(points[0], EXPERIMENT.load(points, None))
    train, test = (
        tasks.composed(points[0], task, which, np.arange(size))
        for which, size in ((tasks.TRAIN, 24), (tasks.TEST, 12))
    )
    kernel = experiment.build_model(points[0].config, "ntk_infinite", 10).kernel
    gram = np.asarray(kernels.gram(kernel, jnp.concatenate([train.inputs, test.inputs])), float)
    targets = np.concatenate([train.targets, test.targets]).astype(float)
    mean = targets[:24].mean(axis=0)
    shifted = gram[:24, :24] + 1e-2 * np.trace(gram[:24, :24]) / 24 * np.eye(24)
    outputs = mean + gram[24:, :24] @ np.linalg.solve(shifted, targets[:24] - mean)
    centred = targets - targets.mean(axis=0)
    variance = np.mean(np.sum(centred**2, axis=1))
    squares = np.mean(np.sum((outputs - targets[24:]) ** 2, axis=1))
    assert found[0]["squared_error"] == pytest.approx(squares / variance, rel=1e-4)
    modes = kernels.modes(kernels.eigendecompose(gram), centred)
    curve = kernels.predict_learning_curve(*modes, [24], 1e-2, pool=36)
    assert found[0]["predicted_error"] == pytest.approx(curve.test[0] / variance, rel=1e-4)

    rows = pd.DataFrame([found[0] | ONE_SEED | {"num_train": n} for n in (24, 48)])
    report = make_report(configure(**BY_COUNT), rows, tmp_path)
    own = [found[0][name] for name in ("squared_error", "predicted_error")]
    (axis,) = report.figures["predictions"]().axes
    assert [line.get_ydata().tolist() for line in axis.get_lines()] == [[n, n] for n in own]


def test_kernels_of_neural_tangents_give_our_predictions_and_report_the_agreement(tmp_path):
    pytest.importorskip("neural_tangents")
    # Learners that solve, and one that follows the trained network.
    sweep = [{"learner": name} for name in ("ntk_infinite", "ntk_finite", "ntk_trained", "network")]
    found, fields = {}, {"ntk_finite.method": "regression"}
    for whose in ("ours", "neural_tangents"):
        points = make_small(sweep, kernels=whose, **fields)
        outcomes = run(points, tmp_path / whose)
        found[whose] = [outcomes[point.id] for point in points]
    for ours, theirs in zip(*found.values(), strict=True):
        assert theirs.metrics["test_accuracy"] == ours.metrics["test_accuracy"]
        solves = theirs.metrics["learner"] != "network"
        assert "kernel_difference" not in ours.metrics
        assert not solves or 0 < theirs.metrics["kernel_difference"] < 1e-4
    rows = pd.DataFrame([o.metrics | ONE_SEED for o in found["neural_tangents"]])
    rows.loc[rows["learner"] == "ntk_infinite", "kernel_difference"] = 0.25
    *_, note = make_report(configure(**BY_COUNT), rows, tmp_path).notes
    assert "infinite NTK 2e-01" in note and "NTK after training" in note


def test_neural_tangents_is_refused_in_one_line_where_it_is_missing(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install 'lsa_jax\\[neural-tangents\\]'"):
        make_small([{"learner": "ntk_infinite"}], kernels="neural_tangents")
