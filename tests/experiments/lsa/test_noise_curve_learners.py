"""Learners of noise curves that follow a network, its dials, and the feature machine."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_noise_curves import make_small, run

from lsa_jax import models
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import experiment, learners


def _of_learners(*names, **fields):
    sweep = [{"learner": name, "noise": noise, "seed": 1} for name in names for noise in (0.5, 1.0)]
    return make_small(sweep, **fields)


class Followed(NamedTuple):
    """A network at two noises and what follows it; the same network alone; what was passed on."""

    points: list
    outcomes: dict
    matrices: list
    alone: dict
    directory: Path
    rate_factors: list


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    directory, matrices, rate_factors = tmp_path_factory.mktemp("followed"), [], []
    solve, make = experiment.kernels.regress, experiment.training.make_optimizer

    def watched(gram_train, targets, gram_test, *, ridge):
        matrices.append(np.array(gram_train))
        return solve(gram_train, targets, gram_test, ridge=ridge)

    def watched_optimizer(*given, **options):
        rate_factors.append(options["rate_factors"])
        return make(*given, **options)

    points = _of_learners("network", "ntk_trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment.kernels, "regress", watched)
        patch.setattr(experiment.training, "make_optimizer", watched_optimizer)
        outcomes = run(points, directory / "both")
        alone = run(_of_learners("network"), directory / "alone")
    return Followed(points, outcomes, matrices, alone, directory / "alone", rate_factors)


def test_the_kernel_after_training_is_that_of_the_networks_own_run(followed):
    """Against the network trained alone, its kernel by Jacobians and a plain solution."""
    points, found, seen = followed.points, followed.outcomes, followed.matrices
    alone = _of_learners("network")
    task = experiment.tasks.task_of(alone[0], experiment.load(alone, None))
    model = experiment.build_model(alone[0].config, "network", 10)
    trained = learners.Trained(model)
    # What it ended with, from its last checkpoint.
    directory = followed.directory / alone[0].id
    params, _ = experiment.train_group(alone, task, trained, directory, lambda f: None)
    for place, point in enumerate(alone):
        of = experiment.tasks
        replica = of.replica_of(point)
        images = of.compose(point.config, of.TRAIN, task.train, replica, jnp.arange(24), 0).inputs
        own = jax.tree.map(lambda leaf, place=place: leaf[place], params)
        ntk = experiment.kernels.empirical_ntk(model.apply, own, images, method="jacobian")
        np.testing.assert_allclose(seen[place], ntk, rtol=1e-3, atol=1e-5 * np.abs(ntk).max())
    assert {o.status for o in found.values()} == {"ok"}
    trained = [found[p.id].metrics for p in points if p.config.learner == "ntk_trained"]
    assert [row["learner"] for row in trained] == ["ntk_trained"] * 2
    assert all(row["train_accuracy"] == 1 for row in trained)  # with hardly any ridge


def test_at_a_large_output_scale_the_network_is_its_linearisation(tmp_path):
    """Losses against those of the linearisation, the NTK after training against that before."""
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
    points = make_small(sweep, **fields)
    lazy, after, before = (outcome.metrics for outcome in run(points, tmp_path).values())
    task = experiment.tasks.task_of(points[0], experiment.load(points, None))
    model = experiment.build_model(points[0].config, "network", 10)
    linear = learners.Trained(models.scaled(model, np.inf), ("initial",))
    _, history = experiment.train_group(points[:1], task, linear, tmp_path / "l", lambda f: None)
    for split in ("train_loss", "test_loss"):
        assert lazy[split] == pytest.approx(history.rows[-1][split][0], abs=1e-3)
    assert lazy["train_loss"] < np.log(10) - 0.02  # it has learned
    assert 0 <= lazy["kernel_distance"] < 1e-4 and 0 < lazy["weight_movement/Conv_0"] < 1e-2
    assert after["test_accuracy"] == before["test_accuracy"]


class _Seen(Exception):
    """What is watched for has been seen: the rest is not run."""


def test_mup_is_standard_at_width_factor_one_and_has_its_rates_at_another(
    followed, tmp_path, monkeypatch
):
    mup = run(_of_learners("network", **{"network.parameterization": "mup"}), tmp_path)
    for point_id, outcome in mup.items():
        assert outcome.metrics == followed.alone[point_id].metrics
    assert followed.rate_factors == [None, None]  # of the standard parameterisation

    def watched(*given, rate_factors, **options):
        raise _Seen(rate_factors)

    monkeypatch.setattr(experiment.training, "make_optimizer", watched)
    fields = {"network.parameterization": "mup", "network.output_scale": 2.0, "width_factor": 4}
    with pytest.raises(_Seen) as seen:
        run(make_small([{"noise": 0.5}], **fields), tmp_path / "wide")
    (factors,) = seen.value.args
    assert set(factors) == {"moved"}  # what is frozen has no rate
    rates = {layer: float(factor["weight"]) for layer, factor in factors["moved"].items()}
    assert rates == {"Conv_0": 4, "Conv_1": 1, "Dense_0": 1 / 4}
    with pytest.raises(InputError, match="config.network.weight_decay is 0.0005; muP"):
        make_small([{}], **fields, **{"network.optimizer": "adam"})


def test_a_network_has_the_same_bits_whether_it_is_followed_or_not(followed, tmp_path):
    both = followed.outcomes
    for point_id, outcome in followed.alone.items():
        assert outcome.metrics == both[point_id].metrics
    for point_id, outcome in run(_of_learners("ntk_trained"), tmp_path).items():
        assert outcome.metrics == both[point_id].metrics


def test_a_recursive_feature_machine_learns_from_the_points_own_images(tmp_path):
    """Its last kernel and its accuracies against the same by hand; killed, it goes on."""
    settings_of = {"rfm.updates": 2, "rfm.points": 9, "rfm.every_update": True}
    (point,) = points = _of_learners("rfm", **settings_of)[:1]
    found = run(points, tmp_path)[point.id].metrics
    task = experiment.tasks.task_of(point, experiment.load(points, None))
    of = experiment.tasks
    train, test = (
        of.compose(point.config, which, split, of.replica_of(point), jnp.arange(count), 0)
        for which, split, count in ((of.TRAIN, task.train, 24), (of.TEST, task.test, 12))
    )
    kernel = experiment.build_model(point.config, "rfm", 10).kernel
    machine = experiment.kernels.recursive_feature_machine(
        kernel.transformed,
        train.inputs,
        train.targets,
        key=jax.random.fold_in(jax.random.key(1), experiment.NoiseCurves.POINTS),
        size=9,
        updates=2,
        points=9,
        ridge=1e-5,
    )
    for update, transform in enumerate(machine.transforms):
        after = kernel.transformed(transform)
        fit = experiment.kernels.regress(
            np.asarray(after(train.inputs)),
            train.targets,
            np.asarray(after(test.inputs, train.inputs)),
            ridge=1e-5,
        )
        accuracy = experiment.training.is_correct(fit.predictions, test.targets).mean()
        assert found[f"test_accuracy_update_{update}"] == pytest.approx(float(accuracy))
    assert found["test_accuracy"] == found["test_accuracy_update_2"]
    kept = tmp_path / point.id / "scratch" / "learned"
    # No matrix is computed twice: that of an update is the one that its kernel is judged by.
    matrices = {f"gram_{update}.npy" for update in (1, 2, 3)}
    names = {path.name for path in kept.glob("*.npy")}
    assert names == matrices | {"transform_1.npy", "transform_2.npy"}
    assert run(points, tmp_path)[point.id].metrics == found


def test_without_updates_a_recursive_feature_machine_is_the_infinite_ntk(tmp_path):
    same = {"rfm.updates": 0, "rfm.ridge": (1e-3,), "ntk_infinite.ridge": (1e-3,)}
    points = make_small(
        [{"learner": name, "noise": 0.5} for name in ("rfm", "ntk_infinite")], **same
    )
    machine, fixed = (o.metrics | {"learner": ""} for o in run(points, tmp_path).values())
    assert machine == fixed


def test_what_follows_a_network_is_refused_where_it_has_no_kernel_of_pairs():
    wide = {"model.name": "wide_resnet", "model.depth": 10, "model.norm": "batch"}
    with pytest.raises(InputError, match="batch normalisation couples"):
        _of_learners("ntk_trained", **wide)
    with pytest.raises(InputError, match=r"config.network.decay_epochs is \(\)"):
        _of_learners("ntk_trained", **{"network.schedule": "steps", "network.decay_epochs": ()})


@pytest.mark.parametrize(
    ("learner", "name", "accepted", "refused"),
    [
        ("network", "momentum", (0.0, 0.9, 1.0), (-0.1, 1.1)),
        ("network", "decay_factor", (0.01, 1.0), (0.0, 1.1)),
        ("network", "learning_rate", (0.01,), (0.0,)),
        ("network", "weight_decay", (0.0, 0.1), (-0.1,)),
        ("network", "decay_epochs", ((), (0.5, 2.0)), ((0.0,),)),
        ("network", "warmup_epochs", (0.0, 0.5), (-0.5,)),
        ("network", "output_scale", (None, 0.1), (0.0,)),
        *(
            ("network", name, (1,), (0,))
            for name in ("epochs", "batch_size", "eval_every", "checkpoint_every")
        ),
        ("ntk_infinite", "ridge", ((0.0,), (0.1, 1.0)), ((-0.1,),)),
        ("ntk_infinite", "tolerance", (0.01, 1.0), (0.0, 1.1)),
        ("ntk_infinite", "centres", (1,), (0,)),
        ("ntk_infinite", "centre_noise", (None, 0.0), (-0.1,)),
        ("rfm", "updates", (0, 1), (-1,)),
        ("rfm", "points", (1,), (0,)),
        ("rfm", "power", (0.1,), (0.0,)),
    ],
)
def test_a_setting_is_accepted_up_to_where_it_stops_to_mean_anything(
    learner, name, accepted, refused
):
    """Nothing decays, pulls or repeats a negative number of times; a rate of 0 learns nothing."""
    accepts = learners.LEARNERS[learner].fields[name].kind.accepts
    assert all(map(accepts, accepted)) and not any(map(accepts, refused))
