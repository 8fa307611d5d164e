"""Noise curves: points that run together, the data of all learners, and exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_noise_curves import configure, make_small, run
from small_sweeps import swept

from lsa_jax import backend, kernels, parallel
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import experiment, learners, tasks
from lsa_jax.experiments.lsa.noise_curves.experiment import EXPERIMENT
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.sweep.points import make_points


def test_trained_points_of_one_shape_are_replicas_and_kernels_are_alone():
    points = make_small(SETTINGS.sweep(configure()), max_replicas=4)
    sizes = [(group[0].config.learner, len(group)) for group in EXPERIMENT.groups(points)]
    trained = [("network", 4), ("network", 1), ("ntk_finite", 4), ("ntk_finite", 1)]
    assert sizes == trained + [("ntk_infinite", 1)] * 5
    places = [{"data.placement": place} for place in ("random_corner", "fixed_corner")]
    assert [len(group) for group in EXPERIMENT.groups(make_small(places))] == [1, 1]


def test_what_follows_a_trained_network_runs_right_behind_it():
    config = configure(**{"sweep.learner": ("network", "ntk_trained")})
    points = make_small(SETTINGS.sweep(config), max_replicas=4)
    found = [[(p.config.learner, p.config.noise) for p in g] for g in EXPERIMENT.groups(points)]
    pairs = [[("network", noise), ("ntk_trained", noise)] for noise in (0.0, 0.5, 1.0, 1.5, 2.0)]
    assert found == [pairs[0] + pairs[1], pairs[2] + pairs[3], pairs[4]]


KEY = jax.random.key(0)


def test_kernels_are_made_of_the_images_that_networks_are_trained_on():
    (point,) = make_small([{"noise": 1.0, "seed": 3}], **{"data.copies": 2})
    task = tasks.task_of(point, EXPERIMENT.load([point], None))
    seen = []
    for which, split in ((tasks.TRAIN, task.train), (tasks.TEST, task.test)):
        count = len(split.targets)
        order = jnp.asarray(np.random.default_rng(0).permutation(count))
        source = tasks.source(point.config, which, split)
        batch = source.fetch(source.arrays, tasks.replica_of(point), order, 5)
        composed = tasks.composed(point, task, which, np.asarray(order))
        np.testing.assert_array_equal(batch.inputs, composed.inputs)
        np.testing.assert_array_equal(batch.targets, split.targets[np.asarray(order)])
        seen.append(np.asarray(tasks.composed(point, task, which, np.arange(count)).inputs))
        np.testing.assert_array_equal(seen[-1][np.asarray(order)], composed.inputs)
    assert not np.array_equal(seen[0][:12], seen[1])
    assert not np.array_equal(seen[0][:24], seen[0][24:])  # a copy has another background


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_rates_fall_and_weights_decay_as_the_learners_settings_say(factor):
    fields = {"learning_rate": 0.1, "epochs": 4, "schedule": "steps", "decay_epochs": (1.0, 3.0)}
    fields |= {"decay_factor": 0.5, "penalty_factor": factor, "weight_decay": 0.01}
    fields |= {"optimizer": "sgd", "momentum": 0.0}
    (point,) = make_small(
        [{"learner": "network"}], **{f"network.{name}": value for name, value in fields.items()}
    )
    trained = learners.Trained(experiment.build_model(point.config, "network", 10))
    optimizer = experiment.make_optimizer(point.config.network, 2, trained, (16, 16, 1))
    params = {"w": jnp.asarray(3.0)}
    state, rates = optimizer.init(params), []
    for _ in range(8):  # two an epoch; with no gradient, the penalty's alone
        updates, state = optimizer.update({"w": jnp.zeros(())}, state, params)
        rates.append(-float(updates["w"]) / (2 * factor * 0.01 * 3))
    np.testing.assert_allclose(rates, [0.1] * 2 + [0.05] * 4 + [0.025] * 2, rtol=1e-5)


def test_batches_that_devices_share_are_normalised_over_their_axis():
    wide = {"model.name": "wide_resnet", "model.depth": 10, "model.norm": "batch"}

    def shape(**fields):
        model = experiment.build_model(configure(**wide, **fields), "network", 2)
        inputs = jnp.zeros((4, 8, 8, 1))
        return jax.eval_shape(lambda key: model.apply(model.init(key, (8, 8, 1)), inputs), KEY)

    assert shape().shape == (4, 2)
    with pytest.raises(NameError, match=parallel.BATCH_AXIS):  # which exists in training alone
        shape(parallel="data")


def test_the_linearised_network_starts_as_the_network_and_moves_linearly(key):
    model = experiment.build_model(configure(), "ntk_finite", 10)
    linear = learners.linearized_model(model)
    inputs = jax.random.normal(key, (3, 16, 16, 1))
    params = linear.init(key, (16, 16, 1))
    initial = model.apply(params["initial"], inputs)
    np.testing.assert_allclose(linear.apply(params, inputs), initial, rtol=1e-5, atol=1e-6)

    def outputs_after(t):
        weights = jax.tree.map(lambda a: a + 0.1 * t, params["initial"])
        return linear.apply(params | {"weights": weights}, inputs) - initial

    once, twice = outputs_after(1.0), outputs_after(2.0)
    assert np.abs(once).max() > 0.1
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-3, atol=1e-4)


def test_exact_learners_go_on_with_the_matrices_that_they_have(tmp_path):
    points = make_small([{"learner": "ntk_infinite", "seed": 0}])
    fractions = []
    (first,) = run(points, tmp_path, fractions.append).values()
    # The symmetric matrix of 24 images is as much work as that with 12 others.
    assert fractions == pytest.approx([0.5, 1.0])
    matrices = sorted(tmp_path.glob(f"{points[0].id}/scratch/*.npy"))
    assert [np.load(file, mmap_mode="r").shape for file in matrices] == [(12, 24), (24, 24)]
    before = [file.stat().st_mtime_ns for file in matrices]
    (second,) = run(points, tmp_path).values()
    assert second.metrics == first.metrics and second.history == first.history
    assert first.timings["matrix_seconds"] > 0 and second.timings["matrix_seconds"] is None
    assert [file.stat().st_mtime_ns for file in matrices] == before


def test_of_several_ridges_left_out_errors_choose(tmp_path):
    ridges = (1e-6, 1e-2, 1e2)
    fields = {"ntk_infinite.ridge": ridges}
    (point,) = points = make_small([{"learner": "ntk_infinite", "noise": 1.0}], **fields)
    (found,) = run(points, tmp_path).values()
    task = tasks.task_of(point, EXPERIMENT.load(points, None))
    kernel = experiment.build_model(point.config, "ntk_infinite", 10).kernel
    x, targets = tasks.composed(point, task, tasks.TRAIN, np.arange(24))
    gram, targets = np.asarray(kernel(x), float), np.asarray(targets)
    best = kernels.leave_one_out_ridge(gram, targets, ridges)
    assert found.metrics["ridge"] == best and 0 < found.metrics["left_out"] < 0.2


def test_iterations_on_half_a_matrix_and_centres_of_a_stream_are_the_factorisation(
    monkeypatch, tmp_path
):
    fields = {"ntk_infinite.ridge": (30.0,), "ntk_infinite.tolerance": 1e-10, "data.copies": 2}
    fields["data.placement"] = "fixed_corner"
    sweep = [{"learner": "ntk_infinite", "noise": 0.5, "seed": 0}]
    monkeypatch.setattr("lsa_jax.experiments.lsa.noise_curves.exact._BATCH", 20)

    def outcome(solver, **others):
        points = make_small(sweep, **fields, **others, **{"ntk_infinite.solver": solver})
        folder, fractions = tmp_path / "-".join((solver, *map(str, others.values()))), []
        found = run(points, folder, fractions.append)[points[0].id].metrics
        assert (np.diff(fractions) >= 0).all() and fractions[-1] <= 1
        return found

    exact = outcome("cholesky")
    assert 0.2 < exact["train_accuracy"] < 1 and 0 < exact["test_accuracy"] < 1
    # An image counts once, on however many backgrounds.
    assert (exact["num_train"], exact["num_test"], exact["num_classes"]) == (24, 12, 10)
    found = outcome("conjugate_gradients")
    for name in ("test_accuracy", "train_accuracy"):
        assert found[name] == exact[name]
    assert 0 < found["residual"] <= 1e-9
    chosen = outcome("auto")
    assert chosen.pop("solver") == "cholesky" and "a factorisation" in chosen.pop("solver_reason")
    assert chosen == exact
    kept = tmp_path / "auto" / "ntk_infinite-noise=0.5-seed=0" / "scratch" / "solver.json"
    kept.write_text("{")
    with pytest.raises(InputError, match="solver.json is damaged; remove it"):
        outcome("auto")
    # All images as centres: the same regression, of images that are composed batch by batch.
    fields["ntk_infinite.centres"] = 48
    centred = outcome("nystrom")
    assert centred["test_accuracy"] == exact["test_accuracy"]
    assert centred["centres"] == centred["examples"] == 48
    black = outcome("nystrom", **{"ntk_infinite.centre_noise": 0.0})
    assert black["condition"] != centred["condition"]
    with pytest.raises(InputError, match="centres is 10000; accepted: at most the"):
        fields["ntk_infinite.centres"] = 10_000
        outcome("nystrom")


def test_a_star_counts_for_each_of_its_backgrounds(tmp_path):
    fields = {"data.dataset": "stars", "data.image_size": 15, "data.test_copies": 3}
    points = make_small([{"learner": "ntk_infinite", "noise": 0.5}], **fields)
    (outcome,) = run(points, tmp_path).values()
    sizes = [outcome.metrics[name] for name in ("num_train", "num_test", "num_classes")]
    assert sizes == [24, 36, 2]


def test_a_batch_that_the_devices_cannot_share_is_refused_as_the_data_are_read():
    devices = len(backend.devices())
    fields = {"parallel": "data", "network.batch_size": devices + 1}
    points = make_small([{"learner": "ntk_infinite"}, {"learner": "network"}], **fields)
    EXPERIMENT.load(points[:1], None)
    with pytest.raises(InputError, match=f"batch_size is {devices + 1}"):
        EXPERIMENT.load(points, None)


OWN = """
from flax import linen as nn

class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Dense(6)(x.reshape(len(x), -1))
        return nn.Dense(10)(nn.relu(nn.BatchNorm(use_running_average=not train)(x)))

few = nn.Sequential([lambda x: x.reshape(len(x), -1), nn.Dense(3)])
"""


def test_a_network_of_ones_own_runs_and_a_changed_file_is_another_sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my_model.py"
    file.write_text(OWN)
    learners = ("network", "ntk_trained", "ntk_finite")
    config = configure(**{"model.name": "my_model.py:Net", "ntk_finite.method": "regression",
                          "sweep.learner": learners, "sweep.noise": (0.0,)})  # fmt: skip

    def sweep(config):
        points = make_points(config, SETTINGS.sweep(config), SETTINGS.validate)
        return swept(config, points, tmp_path / "run")

    results = sweep(config)
    assert (results["status"] == "ok").all() and len(results) == 3
    own = results.set_index("learner").loc["network", "linearization_error"]
    assert 0 < own < 2
    assert list(sweep(config)["seconds"]) == list(results["seconds"])  # nothing ran again
    file.write_text(OWN + "# changed\n")
    with pytest.raises(InputError, match="config.model.name has changed.*accepted"):
        sweep(config)
    for name, word in (("my_model.py:few", "one output"), ("my_model.py:gone", "accepted names"),
                       ("none.py:Net", "no file none.py")):  # fmt: skip
        with pytest.raises(InputError, match=word):
            EXPERIMENT.load(make_small([{}], **{"model.name": name, "data.num_train": 20}), None)
    with pytest.raises(InputError, match="sweep.learner"):
        EXPERIMENT.load(
            make_small([{"learner": "ntk_infinite"}], **{"model.name": "my_model.py:Net"}), None
        )
