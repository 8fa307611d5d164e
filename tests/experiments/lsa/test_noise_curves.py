"""Noise curves: the same data for every learner, and each learner against what it must equal."""

import contextlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from small_noise_curves import SMALL, make_small, run

from lsa_jax import backend, kernels, parallel, training
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import experiment, learners, settings
from lsa_jax.experiments.lsa.noise_curves.report import make_report
from lsa_jax.sweep import config_files
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.throughput import Throughput


def test_trained_points_of_one_shape_are_replicas_and_kernels_are_alone():
    sweep = settings.sweep(settings.default_config().copy_and_resolve_references())
    points = make_small(sweep, **{"max_replicas": 4})
    sizes = [(group[0].config.learner, len(group)) for group in experiment.groups(points)]
    assert (
        sizes
        == [("network", 4), ("network", 1), ("ntk_finite", 4), ("ntk_finite", 1)]
        + [("ntk_infinite", 1)] * 5
    )


PANELS = sorted((Path(__file__).parents[3] / "configs" / "lsa").glob("fig4_*.py"))


@pytest.mark.parametrize("panel", PANELS, ids=lambda path: path.stem)
def test_a_panel_of_figure_4_keeps_four_chips_at_work(panel):
    module = config_files.load(panel)
    config = module.get_config()
    points = make_points(config, config_files.sweep_of(module, config), settings.validate)
    devices = jax.devices()[:4]
    with backend.built_for("tpu", memory=16e9, count=4):
        for learner in ("network", "ntk_finite"):
            groups = [g for g in experiment.groups(points) if g[0].config.learner == learner]
            layouts = [parallel.ReplicaLayout(len(group), devices) for group in groups]
            assert max(len(layout.device_kinds) for layout in layouts) == 4
            # No chip trains two runs one after the other while another has none.
            assert len(groups) == -(-sum(map(len, groups)) // 4)


def test_tiles_of_kernels_are_left_to_the_device(tmp_path, monkeypatch):
    class AskedError(Exception):
        pass

    def gram(*arguments, memory_limit, **settings):
        assert memory_limit is None
        raise AskedError

    monkeypatch.setattr(kernels, "gram", gram)
    with pytest.raises(AskedError):
        run(make_small([{"learner": "ntk_infinite", "noise": 0.0}]), tmp_path)


def test_what_follows_a_trained_network_runs_right_behind_it():
    config = settings.default_config().copy_and_resolve_references()
    config.sweep.learner = ("network", "ntk_trained")
    points = make_small(settings.sweep(config), **{"max_replicas": 4})
    found = [[(p.config.learner, p.config.noise) for p in g] for g in experiment.groups(points)]
    pairs = [[("network", noise), ("ntk_trained", noise)] for noise in (0.0, 0.5, 1.0, 1.5, 2.0)]
    assert found == [pairs[0] + pairs[1], pairs[2] + pairs[3], pairs[4]]


class _Recorded(Exception):
    pass


def test_learners_see_the_same_images_placements_and_noise(monkeypatch, tmp_path):
    """What kernels are made of is what the networks' batches are made of, in any order."""
    seen = {}

    def record_gram(kernel, x1, x2=None, **options):
        seen[learner, "train" if x2 is None else "test"] = np.asarray(x1)
        return np.eye(len(x1)) if x2 is None else np.zeros((len(x1), len(x2)))

    def record_train(key, model, source, loss, optimizer, *, evaluation, replicas, **options):
        for split, given in (("train", source), ("test", evaluation.test)):
            order = jnp.asarray(np.random.default_rng(0).permutation(given.num_examples))
            replica = jax.tree.map(lambda a: a[0], replicas)
            batch = given.fetch(given.arrays, replica, order, 5)
            seen[learner, split] = np.asarray(batch.inputs)[np.argsort(order)]
        raise _Recorded

    monkeypatch.setattr(experiment.kernels, "gram", record_gram)
    monkeypatch.setattr(experiment.training, "train", record_train)
    for learner in settings.LEARNERS:
        points = make_small([{"learner": learner, "noise": 1.0, "seed": 3}])
        with contextlib.suppress(_Recorded):
            run(points, tmp_path)
    for split, count in (("train", 24), ("test", 12)):
        assert seen["network", split].shape == (count, 16, 16, 1)
        for learner in ("ntk_finite", "ntk_infinite"):
            np.testing.assert_array_equal(seen[learner, split], seen["network", split])
    assert not np.array_equal(seen["network", "train"][:12], seen["network", "test"])


def test_more_noise_changes_only_the_background(tmp_path):
    points = make_small(
        [{"learner": name, "noise": n} for name in settings.LEARNERS for n in (0.0, 1.0)],
        **{"data.background_size": 8, "data.placement": "fixed_corner"},
    )
    found = [outcome.metrics for outcome in map(run(points, tmp_path).get, (p.id for p in points))]
    # The image covers the whole background, so the noise must not matter at all.
    for quiet, loud in zip(found[::2], found[1::2], strict=True):
        assert quiet | {"noise": 1.0} == loud
    assert [metrics["learner"] for metrics in found[::2]] == list(settings.LEARNERS)


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_rates_fall_and_weights_decay_as_the_learners_settings_say(factor):
    fields = {"learning_rate": 0.1, "epochs": 4, "schedule": "steps", "decay_epochs": (1.0, 3.0)}
    fields |= {"decay_factor": 0.5, "penalty_factor": factor, "weight_decay": 0.01}
    fields |= {"optimizer": "sgd", "momentum": 0.0}
    (point,) = make_small(
        [{"learner": "network"}], **{f"network.{name}": value for name, value in fields.items()}
    )
    trained = learners.Trained(experiment.build_model(point.config, "network", 10))
    optimizer = experiment._make_optimizer(point.config.network, 2, trained, (16, 16, 1))
    params = {"w": jnp.asarray(3.0)}
    state, rates = optimizer.init(params), []
    for _ in range(8):  # two an epoch; with no gradient, the penalty's alone
        updates, state = optimizer.update({"w": jnp.zeros(())}, state, params)
        rates.append(-float(updates["w"]) / (2 * factor * 0.01 * 3))
    np.testing.assert_allclose(rates, [0.1] * 2 + [0.05] * 4 + [0.025] * 2, rtol=1e-5)


def test_work_is_shared_between_training_and_what_follows_it(monkeypatch, tmp_path):
    sweep = [{"learner": "network", "noise": noise} for noise in (0.0, 0.5, 1.0)]
    sweep += [{"learner": "ntk_trained", "noise": noise} for noise in (0.0, 1.0)]
    points = make_small(sweep)

    def train_group(group, task, trained, directory, progress, **others):
        for fraction in (0.5, 1.0):
            progress(fraction)
        params = jnp.arange(float(len(group)))
        rows = [{"step": 9, "test_accuracy": np.arange(3.0), "other": np.ones(3)}]
        pace = Throughput(10.04, 5.0, {"float32": 50.0})
        return {"w": params}, training.History(rows, {1: "not finite"}, pace)

    solved = []

    def solve(point, task, make_kernel, *others):
        solved.append(float(make_kernel(())["w"]))
        return Outcome({}, [])

    monkeypatch.setattr(experiment, "train_group", train_group)
    monkeypatch.setattr(experiment.kernels, "finite_kernel", lambda apply, params: params)
    monkeypatch.setattr(experiment.exact, "solve", solve)
    fractions, (group,) = [], experiment.groups(points)
    found = experiment.run(group, experiment.load(points, None), tmp_path, fractions.append)
    assert fractions == pytest.approx([0.3, 0.6, 0.8, 1.0])
    leads = [point.config.learner == "network" for point in group]
    assert leads == [True, False, True, True, False]
    # Each with the parameters of its own network: those of the first and of the last noise.
    assert solved == [0.0, 2.0]
    first, _, failed, last, _ = found
    assert failed.status == "failed" and failed.message == "not finite"
    assert (first.metrics["test_accuracy"], last.metrics["test_accuracy"]) == (0.0, 2.0)
    assert "other" not in last.metrics and last.history == [
        {"step": 9, "test_accuracy": 2.0, "other": 1.0}
    ]
    assert last.timings == {"images_per_second": 10.0, "peak_fraction": pytest.approx(0.1)}


def test_batches_that_devices_share_are_normalised_by_the_whole_batch(key):
    wide = {"model.name": "wide_resnet", "model.depth": 10, "model.norm": "batch"}
    inputs = jax.random.normal(key, (4, 8, 8, 1))

    def outputs(batches, **fields):
        config = make_small([{"learner": "network"}], **wide, **fields)[0].config
        model = experiment.build_model(config, "network", 2)
        params = model.init(key, (8, 8, 1))
        apply = jax.vmap(lambda x: model.apply(params, x), axis_name=parallel.BATCH_AXIS)
        return apply(inputs.reshape(batches, -1, 8, 8, 1)).reshape(4, 2)

    shared, alone = outputs(2, parallel="data"), outputs(1)
    np.testing.assert_allclose(shared, alone, rtol=1e-3, atol=1e-4)
    assert np.abs(outputs(2) - alone).max() > 0.01  # by halves they are others


def test_linearised_network_starts_as_the_network_and_moves_linearly(key):
    config = make_small([{"learner": "ntk_finite"}])[0].config
    model = experiment.build_model(config, "ntk_finite", 10)
    linear = learners.linearized_model(model)
    inputs = jax.random.normal(key, (3, 16, 16, 1))
    params = linear.init(key, (16, 16, 1))
    np.testing.assert_allclose(
        linear.apply(params, inputs), model.apply(params["initial"], inputs), rtol=1e-5, atol=1e-6
    )
    step = jax.tree.map(lambda a: 0.1 * jax.numpy.ones_like(a), params["initial"])

    def outputs_after(t):
        weights = jax.tree.map(lambda a, b: a + t * b, params["initial"], step)
        return linear.apply(params | {"weights": weights}, inputs)

    outputs = [outputs_after(t) for t in (0.0, 1.0, 2.0)]
    np.testing.assert_allclose(
        outputs[2] - outputs[0], 2 * (outputs[1] - outputs[0]), rtol=1e-3, atol=1e-4
    )


def test_exact_finite_ntk_without_ridge_fits_its_training_set(tmp_path):
    points = make_small(
        [{"learner": "ntk_finite", "seed": 0}],
        **{"ntk_finite.method": "regression", "ntk_finite.ridge": (1e-6,)},
    )
    exact = run(points, tmp_path)[points[0].id]
    assert exact.metrics["train_accuracy"] == 1.0 and exact.metrics["ridge"] == 1e-6


def test_exact_learners_go_on_with_the_matrices_that_they_have(tmp_path):
    points = make_small([{"learner": "ntk_infinite", "seed": 0}])
    (first,) = run(points, tmp_path).values()
    matrices = sorted(tmp_path.glob(f"{points[0].id}/scratch/*.npy"))
    assert [np.load(file, mmap_mode="r").shape for file in matrices] == [(12, 24), (24, 24)]
    before = [file.stat().st_mtime_ns for file in matrices]
    (second,) = run(points, tmp_path).values()
    assert second.metrics == first.metrics and second.history == first.history
    assert first.timings["matrix_seconds"] > 0 and second.timings["matrix_seconds"] is None
    assert [file.stat().st_mtime_ns for file in matrices] == before


def test_iterations_on_half_a_matrix_and_centres_of_a_stream_are_the_factorisation(tmp_path):
    fields = {"ntk_infinite.ridge": (1e-2,), "ntk_infinite.tolerance": 1e-10, "data.copies": 2}
    sweep = [{"learner": "ntk_infinite", "noise": 0.5, "seed": 0}]

    def outcome(solver, **others):
        points = make_small(sweep, **fields, **others, **{"ntk_infinite.solver": solver})
        folder = tmp_path / "-".join((solver, *map(str, others.values())))
        return run(points, folder)[points[0].id].metrics

    exact, iterated = outcome("cholesky"), outcome("conjugate_gradients")
    on_disk = outcome("cholesky_on_disk")
    for name in ("test_accuracy", "train_accuracy"):
        assert iterated[name] == on_disk[name] == exact[name]
    assert 0 < iterated["residual"] <= 1e-9 and 0 < on_disk["residual"] <= 1e-9
    assert on_disk["iterations"] <= 3
    chosen = outcome("auto")
    assert chosen.pop("solver") == "cholesky" and "a factorisation" in chosen.pop("solver_reason")
    assert chosen == exact
    # All images as centres: the same regression, of images that are composed batch by batch.
    fields["ntk_infinite.centres"] = 48
    centred = outcome("nystrom")
    assert centred["test_accuracy"] == exact["test_accuracy"]
    assert centred["centres"] == centred["examples"] == 48
    # Its own noise behind a centre is what the other learners see; without, it is another system.
    assert outcome("nystrom", **{"ntk_infinite.centre_noise": 0.5}) == centred
    black = outcome("nystrom", **{"ntk_infinite.centre_noise": 0.0})
    assert black["condition"] != centred["condition"]
    with pytest.raises(InputError, match="centres is 10000; accepted: at most the"):
        fields["ntk_infinite.centres"] = 10_000
        outcome("nystrom")
    with pytest.raises(InputError, match="conjugate_gradients takes one ridge"):
        fields["ntk_infinite.ridge"] = (1e-2, 1e-3)
        outcome("conjugate_gradients")


def test_a_copy_is_the_same_image_on_another_background():
    (point,) = make_small([{"noise": 1.0, "seed": 0}], **{"data.copies": 3})
    task = experiment.tasks.task_of(point, experiment.load([point], None))
    assert len(task.train.images) == 24 and len(task.train.targets) == 72
    composed = experiment.tasks.compose_training(point, task, 72)
    side = point.config.data.image_size

    def shows(background, image):
        windows = np.lib.stride_tricks.sliding_window_view(background[..., 0], (side, side))
        return (windows == image[..., 0]).all(axis=(-1, -2)).sum()

    for copy in range(3):
        for own in (5, 23):
            assert shows(composed[24 * copy + own], task.train.images[own]) == 1
    assert not np.array_equal(composed[5], composed[29])


def test_learning_curves_measure_the_network_whose_kernel_is_solved(tmp_path):
    fields = {
        "figure_axis": "num_train",
        "sweep.learner": ("network", "ntk_trained", "ntk_finite"),
        "sweep.noise": (0.5,),
        "sweep.num_train": (12, 24),
        "sweep.seed": (0,),
        "ntk_finite.method": "regression",
        "measures": ("kernel_distance", "weight_movement"),
        "measured_examples": 8,
    }
    config = set_fields(settings.default_config(), SMALL | fields)
    points = make_points(config, settings.sweep(config), settings.validate)
    outcomes = run(points, tmp_path)
    rows = [{"id": run, "status": "ok"} | found.metrics for run, found in outcomes.items()]
    table = pd.DataFrame(rows)
    assert sorted(table["num_train"].unique()) == [12, 24] and set(table["num_test"]) == {12}
    trained = table[table["learner"] == "network"]
    assert (trained["kernel_distance"] > 0).all() and (trained["weight_movement/Conv_0"] > 0).all()
    assert (trained["measured_examples"] == 8).all()
    course = [row["kernel_distance"] for row in outcomes[points[0].id].history]
    assert course == sorted(course) and course[0] == pytest.approx(0, abs=1e-6) and len(course) == 3
    report = make_report(config, table, tmp_path)
    assert report.notes[0].startswith("Verdict: undecided")
    assert list(report.tables[0][1].columns) == ["series", "12 examples", "24 examples"]
    with pytest.raises(InputError, match="config.sweep.num_train is \\(\\); accuracy is drawn"):
        settings.validate(set_fields(config, {"sweep.num_train": ()}))


def test_an_image_counts_once_on_however_many_backgrounds_and_a_star_for_each(tmp_path):
    copies = {"data.copies": 2, "data.test_copies": 3, "sweep.noise": (0.5,), "sweep.seed": (0,)}
    of_images = {"figure_axis": "num_train", "sweep.num_train": (20,)}
    of_stars = {"data.dataset": "stars", "data.image_size": 15, "data.num_train": 20}
    for fields, num_test, classes in ((of_images, 12, 10), (of_stars, 36, 2)):
        fields = SMALL | copies | fields | {"sweep.learner": ("ntk_infinite",)}
        config = set_fields(settings.default_config(), fields)
        points = make_points(config, settings.sweep(config), settings.validate)
        (outcome,) = run(points, tmp_path / config.data.dataset).values()
        sizes = (outcome.metrics[name] for name in ("num_train", "num_test", "num_classes"))
        assert tuple(sizes) == (20, num_test, classes)


@pytest.mark.parametrize("axis", ["num_train", "update"])
def test_learning_curves_and_updates_are_of_one_series_a_learner(axis):
    counts = (12,) if axis == "num_train" else ()
    fields = {"figure_axis": axis, "sweep.noise": (0.5,), "rfm.every_update": True}

    def validate(name, values):
        own = SMALL | fields | {"sweep.num_train": counts, f"sweep.{name}": values}
        settings.validate(set_fields(settings.default_config(), own))

    for name, values in (
        ("placement", ("random_corner", "fixed_corner")),
        ("size", ((8, 16), (8, 8))),
        ("ntk_width_factor", (1, 4)),
    ):
        validate(name, ())
        validate(name, values[:1])
        with pytest.raises(InputError, match=rf"^config.sweep.{name} is .*{axis}; accepted: one"):
            validate(name, values)


def test_a_batch_that_the_devices_cannot_share_is_refused_as_the_data_are_read():
    devices = len(backend.devices())
    fields = {"parallel": "data", "network.batch_size": devices + 1}
    sweep = [{"learner": "ntk_infinite"}, {"learner": "network"}]
    points = make_small(sweep, **fields)
    experiment.load(points[:1], None)
    with pytest.raises(InputError, match=f"batch_size is {devices + 1}; .* multiples of {devices}"):
        experiment.load(points, None)
