"""Predicted and measured learning curves: pools, learners, and the claims on them."""

import jax
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax import kernels
from lsa_jax.experiments.theory.learning_curves import claims, experiment
from lsa_jax.experiments.theory.learning_curves.settings import SETTINGS

SMALL = {
    "num_others": 20,
    "draws": 2,
    "steps": 4,
    "rfm.updates": 1,
    "rfm.points": 4,
    "sweep.task": ("digits",),
    "sweep.pool": (60, 60, 60),
    "sweep.num_train": (8,),
    "sweep.change": (),
    "sweep.seed": (3,),
}
make = maker(SETTINGS, SMALL)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Returns the outcomes by learner and number of examples, and the data of a group."""
    _, points = make()
    data, found = experiment.load(points, None), {}
    for group in experiment.EXPERIMENT.groups(points):
        folder = tmp_path_factory.mktemp("group")
        for point, one in zip(group, experiment.run(group, data, folder, print), strict=True):
            found[point.config.learner, point.config.num_train] = one.metrics
    return found, experiment.Group(points[0].config, data, tmp_path_factory.mktemp("again"))


def test_errors_and_estimates_are_those_of_a_regression_on_each_draw(shared):
    found, group = shared
    (config,) = (p.config for p in make(sweep__learner=("ntk_infinite",))[1][:1])
    gram = np.asarray(kernels.gram(group.wide.kernel, group.pool.inputs), float)
    targets = group.pool.targets
    modes = np.linalg.eigh(gram)[1].T
    errors, recovered = [], 0.0
    for draw in range(2):
        train = experiment.subset(config, draw, 60)
        assert len({*train.tolist()}) == config.num_train == 8
        shifted = gram[np.ix_(train, train)] + config.ridge * np.trace(gram) / 60 * np.eye(8)
        inverse = np.linalg.inv(shifted)
        squares = np.sum((gram[:, train] @ inverse @ targets[train] - targets) ** 2, axis=1)
        unseen = np.setdiff1d(np.arange(60), train)
        kare = np.mean(np.sum((inverse @ targets[train]) ** 2, axis=1)) / (inverse.trace() / 8) ** 2
        left_out = []
        for i in range(8):
            rest = np.arange(8) != i
            weights = np.linalg.solve(shifted[np.ix_(rest, rest)], targets[train[rest]])
            distance = gram[train[i], train[rest]] @ weights - targets[train[i]]
            left_out.append(np.sum(distance**2))
        sizes = squares[unseen].mean(), squares[train].mean(), squares.mean()
        errors.append([*sizes, kare, np.mean(left_out)])
        # Of targets that are one mode, the share that the outputs have of it.
        recovered = (
            recovered + np.sum(modes * (modes[:, train] @ inverse @ gram[train]), axis=1) / 2
        )
    own = found["ntk_infinite", 8]
    variance = np.mean(np.sum(targets**2, axis=1))
    names = ("test_error", "train_error", "whole_error", "kare", "leave_one_out")
    measured = [own[name] * variance for name in names]
    np.testing.assert_allclose(measured, np.mean(errors, axis=0), rtol=1e-5)
    assert own["num_test"] == 52
    # Predictions are of this pool, its ridge and its modes, the largest first.
    coefficients = modes @ targets / 60**0.5
    curve = kernels.predict_learning_curve(
        np.linalg.eigvalsh(gram) / 60, coefficients, [8], config.ridge, pool=60
    )
    for name in ("test", "train", "whole"):
        assert own[f"predicted_{name}"] * variance == pytest.approx(getattr(curve, name)[0])
    estimates = {"ratio": "predicted_test"} | {f"{n}_ratio": n for n in ("kare", "leave_one_out")}
    for ratio, estimate in estimates.items():
        assert own[ratio] == own[estimate] / own["test_error"]
    gaps = np.split((recovered - curve.learnabilities[0])[::-1], [10, 30])
    assert own["learnability_gap"] == pytest.approx(max(abs(part.mean()) for part in gaps))
    powers = np.sum(coefficients[::-1] ** 2, axis=1)
    assert own["power_10"] == pytest.approx(powers[:10].sum() / variance)


def test_learners_have_the_predictions_that_they_can_have(shared):
    found, _ = shared
    assert len(found) == 6
    for (learner, count), one in found.items():
        assert ("predicted_test" in one) == (learner != "network")
        share = count / 60
        mean = share * one["train_error"] + (1 - share) * one["test_error"]
        assert one["whole_error"] == pytest.approx(mean)
        if learner != "network":
            assert 0 < one["ratio"] < 3 and one["power_1"] < one["power_30"] <= 1
            assert one["power_300"] == pytest.approx(1)
    # A network's kernel before and after training, on examples of the pool and on others.
    kernels_of_a_network = ("ntk_start", "ntk_fixed", "ntk_trained")
    assert len({found[learner, 8]["test_error"] for learner in kernels_of_a_network}) == 3


def test_a_changed_pool_keeps_its_spectrum_or_its_eigenvectors(shared):
    _, group = shared
    gram = kernels.gram(group.wide.kernel, group.pool.inputs)
    pool = experiment.make_pool(gram, group.pool.targets)
    values, coefficients = kernels.modes(pool.spectrum, pool.targets)

    turned = experiment.change_pool(pool, "random_eigenvectors", 0)
    own, same = kernels.modes(kernels.eigendecompose(turned.gram), turned.targets)
    np.testing.assert_allclose(own, values, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(np.abs(same[-5:]), np.abs(coefficients[-5:]), rtol=1e-3, atol=1e-6)
    assert abs(turned.gram[0, 1] - pool.gram[0, 1]) > 1e-3

    drawn = experiment.change_pool(pool, "gaussian_targets", 0)
    np.testing.assert_array_equal(drawn.gram, pool.gram)
    power = [np.sum(kernels.modes(p.spectrum, p.targets)[1] ** 2, axis=1) for p in (pool, drawn)]
    assert 0.7 < np.exp(np.mean(np.log(power[1][20:] / power[0][20:]))) < 1.2
    assert not np.allclose(power[0], power[1], rtol=0.1)

    for change, size in (("half_pool", 30), ("quarter_pool", 15)):
        part = experiment.change_pool(pool, change, 0)
        assert part.gram.shape == (size, size)
        np.testing.assert_allclose(part.targets.mean(axis=0), 0, atol=1e-7)
    assert experiment.change_pool(pool, "none", 0) is pool


def test_a_change_of_the_pool_that_no_number_of_examples_fits_has_no_claim():
    config, _ = make(
        sweep__num_train=(20,),
        sweep__change=("quarter_pool", "half_pool"),
        sweep__changed=("digits",),
    )
    changed = [one.item for one in claims.make_claims(config) if "all n" in one.item]
    assert len(changed) == 1  # of 30 and 15 images, 20 are below 30 alone


def test_networks_are_trained_on_their_draw_and_kernels_that_learn_on_others(shared, tmp_path):
    _, group = shared
    config = make(sweep__learner=("network",))[1][0].config
    drawn = group.drawn(config)
    np.testing.assert_array_equal(drawn.inputs, group.pool.inputs[experiment.subset(config, 0, 60)])
    assert not {x.tobytes() for x in group.pool.inputs} & {x.tobytes() for x in group.others.inputs}
    before, after = (
        experiment.train(
            jax.random.key(0),
            group.model,
            drawn,
            make(steps=steps)[1][0].config,
            tmp_path / str(steps),
        )
        for steps in (1, 200)
    )
    errors = [np.sum((group.outputs(p) - group.pool.targets) ** 2, axis=1) for p in (before, after)]
    own = experiment.subset(config, 0, 60)
    assert errors[1][own].mean() < 0.1 * errors[0][own].mean()
