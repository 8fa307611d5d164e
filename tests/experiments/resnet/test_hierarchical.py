"""Hierarchical targets: learners, kernels and read-outs against formulas, a sweep end to end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax.errors import InputError
from lsa_jax.experiments.resnet.hierarchical import experiment, kernels, settings, tasks
from lsa_jax.experiments.resnet.search import SearchResult
from lsa_jax.experiments.resnet.shallow import first_features, last_features, shallow
from lsa_jax.sweep.variants import set_fields

TINY = {
    "d": 8,
    "num_train": 20,
    "num_test": 10,
    "num_probe": 40,
    "batch_size": 20,
    "epochs": 4,
    "fall_epoch": 2,
    "eval_every": 2,
    "watch_every": 2,
    "width": 6,
    "sweep.width": (6,),
    "sweep.seed": (0, 1),
}
make = maker(settings.SETTINGS, TINY)


def configure(**fields):
    return set_fields(settings.SETTINGS.default_config(), TINY | fields)


def test_a_watched_run_begins_at_the_start_and_ends_with_the_errors_of_the_search(tmp_path):
    series = (("2layer", "hidden"), ("2layer", "ntk"))
    _, points = make(question="epochs", sweep__series=series, sweep__seed=(0,), num_test=30)
    config, task = points[0].config, tasks.make_task(points[0].config)
    base, composite = tasks.signals(task.hierarchy, task.test.inputs)
    probe, start = tasks.draw_probe(config), tasks.initial_params(config)
    of_probe, of_test = (first_features(start, x) for x in (probe.inputs, task.test.inputs))
    probe_base, _ = tasks.signals(task.hierarchy, probe.inputs)
    outputs = tasks.make_network(config).apply(start, task.test.inputs)
    expected = {
        "base_error": experiment.share_missed(outputs, base),
        "composite_error": experiment.share_missed(outputs, composite),
        "first_layer_error": experiment.readout_error(of_probe, probe_base, of_test, base),
        "test_error": jnp.mean(jnp.sum((outputs - base - composite) ** 2, axis=1)),
    }
    deviation = np.sqrt(np.var(task.test.targets, axis=0).sum())
    for point, readouts in zip(points, (3, 1), strict=True):  # a kernel's features stay
        (found,) = experiment.run([point], None, tmp_path / point.id, lambda fraction: None)
        first, *_, last = found.history
        assert [row["epoch"] for row in found.history] == [0, 2, 4]
        assert last["test_error"] == pytest.approx(found.metrics["test_error"], rel=1e-5)
        # The search's own winner kept its errors, over the deviation of the targets.
        kept = np.square(found.outcomes.values.astype(float) * deviation).mean()
        assert kept == pytest.approx(found.metrics["test_error"], rel=2e-3)
        assert len({row["first_layer_error"] for row in found.history}) == readouts
        for name, value in expected.items():
            assert first[name] == pytest.approx(float(value), rel=1e-3)


def test_kernels_have_rates_of_their_own():
    rates = {"search.learning_rates": (0.5,), "search.kernel_learning_rates": (2.0,)}
    rates |= {"search.weight_decays": (0.25,), "search.kernel_weight_decays": (1.0,)}
    for learner, expected in (("all", (0.5, 0.25)), ("ntk", (2.0, 1.0))):
        found = experiment.candidates(configure(learner=learner, **rates))
        assert (found["learning_rate"].tolist(), found["weight_decay"].tolist()) == (
            [expected[0]],
            [expected[1]],
        )


def test_hopeless_is_so_many_times_the_mean_square_of_the_targets():
    fields = {"search.hopeless": 3.0, "search.rung_epochs": (1, 2), "search.rung_keep": (4, 2)}
    fields |= {"alpha": 0.5, "beta": 2.0, "outputs": 3, "composite_degree": 3}
    plan = experiment.make_plan(configure(**fields))
    assert plan.hopeless == pytest.approx(3 * 3 * (2**2 + 0.5**2))
    assert plan.rungs == {1: 4, 2: 2}
    task = tasks.make_task(configure(**fields | {"num_train": 4000}))
    squares = np.sum(np.square(np.asarray(task.train.targets)), axis=1)
    assert squares.mean() == pytest.approx(plan.hopeless / 3, rel=0.05)


def result(best):
    """Returns a search of three candidates of which the first was dropped after two epochs."""
    errors = np.array([[0.99, 0.98, 0.97], [0.9, 0.8, 0.7], [np.nan, 0.5, 0.25]])
    return SearchResult(best, {}, [1, 2, 4], errors / 2, errors, np.array([2, 4, 4]), [], None)


def run_with(monkeypatch, tmp_path, found, **fields):
    """Returns outcomes of two seeds of a search that finds a given result, and its arguments."""
    given, fractions = [], []

    class Fake:
        def run(self, key, start, train, test, grid, observe=None, **options):
            given.append((train, grid, options))
            for epoch in (2, 4, 6) if observe else ():
                observe(epoch, jax.tree.map(lambda a, e=epoch: np.full((1, *a.shape), e), start))
            if not observe:
                options["progress"](0.5)
            return found

        def distances(self, found, candidate, test):
            return np.arange(10.0) + candidate

    monkeypatch.setattr(experiment, "make_search", lambda config, plan: Fake())
    rates = {"search__learning_rates": (0.5, 0.25, 0.125), "search__weight_decays": (0.1,)}
    _, points = make(**rates, **fields)
    (group,) = experiment.EXPERIMENT.groups(points)
    return experiment.run(group, None, tmp_path, fractions.append), given, fractions


def test_a_winner_has_its_last_errors_and_every_candidate_a_row_an_epoch(monkeypatch, tmp_path):
    found, given, fractions = run_with(monkeypatch, tmp_path, result(2), question="width")
    assert fractions == [0.25, 0.75] and len(found) == 2
    assert given[0][2]["checkpoint_dir"] != given[1][2]["checkpoint_dir"]
    assert not np.array_equal(given[0][0].inputs, given[1][0].inputs)
    assert found[0].outcomes.test != found[1].outcomes.test  # a test set for each seed
    for outcome in found:
        expected = {"test_error": 0.25, "train_error": 0.125, "learning_rate": 0.125}
        expected |= {"weight_decay": 0.1, "candidates": 3, "candidates_finished": 2}
        assert outcome.metrics == expected
        kept = np.square(outcome.outcomes.values.astype(float))
        np.testing.assert_allclose(kept / kept[0], (np.arange(10) + 2) / 2, rtol=2e-3)
        rows = [tuple(row.values()) for row in outcome.history]
        assert rows == [
            (epoch, rate, 0.1, error / 2, error, rate == 0.125)
            for epoch, errors in ((1, (0.99, 0.98, 0.97)), (2, (0.9, 0.8, 0.7)), (4, (0.5, 0.25)))
            for rate, error in zip((0.5, 0.25, 0.125)[-len(errors) :], errors, strict=True)
        ]


def test_a_search_without_a_winner_has_failed(monkeypatch, tmp_path):
    found, _, _ = run_with(monkeypatch, tmp_path, result(None), question="width")
    assert {outcome.status for outcome in found} == {"failed"} and len(found[0].history) == 8


def test_a_signal_is_learned_at_the_first_epoch_that_misses_half_or_less(monkeypatch, tmp_path):
    missed = {2: (0.6, 0.9), 4: (0.5, 0.8), 6: (0.4, 0.7)}

    def measure(params):
        numbers = missed.get(int(np.ravel(params["b2"])[0]), (1, 1))  # of the start: 0 or less
        return dict(zip(("base_error", "composite_error"), numbers, strict=True))

    monkeypatch.setattr(experiment, "make_measure", lambda config, task: measure)
    found, given, _ = run_with(monkeypatch, tmp_path, result(1), question="epochs")
    for outcome in found:
        expected = {"base_epoch": 4, "composite_epoch": None, "base_error": 0.4}
        expected |= {"composite_error": 0.7, "test_error": 0.5, "learning_rate": 0.25}
        assert outcome.metrics.items() >= expected.items() and "epoch" not in outcome.metrics
        assert [row["epoch"] for row in outcome.history] == [0, 2, 4, 6]
    winner = {name: values.tolist() for name, values in given[1][1].items()}
    assert winner == {"learning_rate": [0.25], "weight_decay": [0.1]}


def test_learners_train_the_parts_they_are_named_after(key):
    """All but the output layer; the output layer; and f at the start plus its derivative."""
    config = {
        learner: configure(learner=learner, net="3layer")
        for learner in ("all", "hidden", "last", "ntk")
    }
    functions = {name: tasks.trained_function(of) for name, of in config.items()}
    frozen = {name: kept for name, (_, kept) in functions.items()}
    assert frozen == {"all": (), "hidden": ("a",), "last": (), "ntk": ()}
    task = tasks.make_task(config["all"])
    x, initial = task.train.inputs, tasks.initial_params(config["all"])
    apply = shallow("3layer", 6, initial["a"].shape[1]).apply
    moved = jax.tree.map(lambda p: p + 0.1 * jax.random.normal(key, p.shape), initial)
    for name in ("all", "hidden"):
        start, train, _ = tasks.make_training(config[name], task)
        assert set(start) == set(initial) and train.inputs is x
        np.testing.assert_allclose(functions[name][0](moved, x), apply(moved, x), rtol=1e-5)
    start, train, _ = tasks.make_training(config["last"], task)
    np.testing.assert_array_equal(start["a"], initial["a"])
    features = last_features("3layer", initial, x) @ moved["a"]
    assert list(start) == ["a"]
    found = functions["last"][0]({"a": moved["a"]}, train.inputs)
    np.testing.assert_allclose(found, features, rtol=1e-4, atol=1e-5)
    start, train, _ = tasks.make_training(config["ntk"], task)
    batch = tasks.fetch_linearized(train, None, jnp.arange(20), jnp.int32(0))
    step = jax.tree.map(jnp.subtract, moved, start)
    values, slopes = jax.jvp(lambda p: apply(p, x), (start,), (step,))
    found = functions["ntk"][0](moved, batch.inputs)
    np.testing.assert_allclose(found, values + slopes, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(batch.targets, task.train.targets)
    # Products of matrices have the precision of the device's default, as the network's have.
    program = str(jax.make_jaxpr(functions["ntk"][0])(moved, batch.inputs))
    assert "dot_general" in program and "HIGH" not in program


def test_the_full_kernel_s_rows_are_pairs_of_example_and_output(key):
    model = shallow("3resnet", 5, 2)
    params = model.init(key, (4,))
    x = jax.random.normal(key, (3, 4))
    jacobian = jax.jacobian(lambda p: model.apply(p, x).reshape(-1))(params)
    flat = jnp.concatenate([leaf.reshape(6, -1) for leaf in jax.tree.leaves(jacobian)], axis=1)
    found = kernels.full_ntk(model.apply, params, x, x)
    np.testing.assert_allclose(found, flat @ flat.T, rtol=1e-4)


def test_kernels_of_inputs_are_their_formulas(key):
    """Each pair by itself in float64: exp(-|x - x'|^2 / (2 s^2 d)), and Cho and Saul's order 1."""
    x1, x2 = (np.random.default_rng(n).normal(size=(n, 5)) * 2 for n in (4, 3))
    on_device = [jnp.asarray(x, jnp.float32) for x in (x1, x2)]
    squares = np.square(x1[:, None] - x2[None]).sum(axis=2)
    for bandwidth in (0.5, 3.0):
        found = kernels.gaussian_kernel(bandwidth)(*on_device)
        np.testing.assert_allclose(found, np.exp(-squares / (2 * bandwidth**2 * 5)), rtol=1e-3)
    lengths = np.linalg.norm(x1, axis=1)[:, None] * np.linalg.norm(x2, axis=1)
    angles = np.arccos(x1 @ x2.T / lengths)
    expected = lengths * (np.sin(angles) + (np.pi - angles) * np.cos(angles)) / (2 * np.pi)
    np.testing.assert_allclose(kernels.arc_cosine_kernel(*on_device), expected, rtol=1e-4)


def interpolated(features, targets, features_test):
    """Returns predictions of least squares of the least norm, of differences from the mean."""
    mean = targets.mean(axis=0)
    weights = np.linalg.lstsq(features, targets - mean, rcond=None)[0]
    return mean + features_test @ weights


def test_the_exact_finite_kernel_is_least_squares_on_derivatives():
    """Added to the initial outputs; a large ridge learns nothing, and the best ridge is kept."""
    sizes = {"num_train": 6, "num_test": 30, "num_exact_test": 20, "width": 20}
    config = configure(net="2layer", learner="ntk_exact", ridges=(1e-6, 1e6), **sizes)
    task, apply = tasks.make_task(config), tasks.make_network(config).apply
    initial = tasks.initial_params(config)
    jacobian = jax.jit(jax.jacobian(lambda p, x: apply(p, x).reshape(-1)))

    def derivatives(x):
        leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(jacobian(initial, x))]
        return np.concatenate([leaf.reshape(4 * len(x), -1) for leaf in leaves], axis=1)

    (x, y), (x_test, y_test) = task.train, [part[:20] for part in task.test]
    left, left_test = (
        np.asarray(b - apply(initial, a), float) for a, b in ((x, y), (x_test, y_test))
    )
    found = interpolated(derivatives(x), left.reshape(-1, 1), derivatives(x_test)).reshape(20, 4)
    squares = [np.sum((f - left_test) ** 2, axis=1) for f in (found, left.mean())]
    outcome = kernels.run_exact(config)
    errors = [row["test_error"] for row in outcome.history]
    np.testing.assert_allclose(errors, [np.mean(s) for s in squares], rtol=0.01)
    assert outcome.metrics["test_error"] == min(errors)
    deviation = np.sqrt(np.var(y_test, axis=0).sum())
    kept = outcome.outcomes.values.astype(float) * deviation
    np.testing.assert_allclose(np.square(kept), squares[np.argmin(errors)], rtol=0.05)


def test_the_exact_last_layer_is_least_squares_on_features():
    sizes = {"num_train": 6, "num_test": 30, "width": 60}
    config = configure(net="3layer", learner="last_exact", ridges=(1e-6,), **sizes)
    task, initial = tasks.make_task(config), tasks.initial_params(config)
    features, test = (
        np.asarray(last_features("3layer", initial, data.inputs), float)
        for data in (task.train, task.test)
    )
    found = interpolated(features, np.asarray(task.train.targets, float), test)
    error = np.mean(np.sum((found - np.asarray(task.test.targets)) ** 2, axis=1))
    outcome = kernels.run_exact(config)
    assert outcome.metrics["test_error"] == pytest.approx(error, rel=0.01)
    kept = np.square(outcome.outcomes.values.astype(float)).mean()
    variance = np.var(task.test.targets, axis=0).sum()
    assert kept * variance == pytest.approx(error, rel=0.01)


@pytest.mark.parametrize(
    "learner", ["gaussian", "arc_cosine", "ntk_infinite", "conjugate_infinite"]
)
def test_every_bandwidth_and_ridge_of_a_kernel_is_tried(learner):
    sizes = {"num_train": 6, "num_test": 30, "ridges": (1e-6, 1e6), "bandwidths": (0.5, 1.0)}
    config = configure(net="2layer", learner=learner, **sizes)
    history = kernels.run_exact(config).history
    bandwidths = (0.5, 1.0) if learner == "gaussian" else (None,)
    tried = [(row["bandwidth"], row["ridge"]) for row in history]
    assert tried == [(b, r) for b in bandwidths for r in config.ridges]
    (x, train), (x_test, test) = (map(np.asarray, part) for part in tasks.make_task(config)[1:])
    means = np.mean(np.sum((test - train.mean(axis=0)) ** 2, axis=1))
    for row in history[1::2]:  # a large ridge leaves the mean of the targets
        assert row["test_error"] == pytest.approx(means, rel=1e-3)
    if learner.endswith("infinite"):
        get = "ntk" if learner == "ntk_infinite" else "nngp"
        kernel = shallow("2layer", 6, 4, init="mixed").kernel
        gram, cross = (
            np.asarray(kernel(jnp.asarray(a), jnp.asarray(x), get=get), float) for a in (x, x_test)
        )
        solved = np.linalg.solve(gram, train - train.mean(axis=0))
        squares = (train.mean(axis=0) + cross @ solved - test) ** 2
        assert history[0]["test_error"] == pytest.approx(squares.sum(axis=1).mean(), rel=0.01)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_read_out_is_least_squares_with_a_constant_at_any_scale_of_features(scale):
    """Also where features are linearly dependent, as the third is on the first."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 2)) * scale
    features = np.concatenate([features, 2 * features[:, :1]], axis=1)
    signal = 3 + features[:, :2] @ np.array([[1.0, 0.5], [0.2, -1.0]]) / scale
    signal += rng.normal(size=signal.shape)
    with_constant = np.concatenate([features, np.ones((400, 1))], axis=1)
    weights = np.linalg.lstsq(with_constant[:300], signal[:300], rcond=None)[0]
    found = with_constant[300:] @ weights
    expected = np.sum((found - signal[300:]) ** 2) / np.sum(signal[300:] ** 2)
    parts = (features[:300], signal[:300], features[300:], signal[300:])
    error = experiment.readout_error(*(jnp.asarray(part, jnp.float32) for part in parts))
    assert float(error) == pytest.approx(expected, rel=1e-3)


def test_the_missed_share_is_weighted_by_the_signals_mean_squares():
    """Half of a signal of mean square 1 and all of one of 9: (1/4 + 9) / 10."""
    signs = jnp.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    signal, other = signs * jnp.array([[1.0, 3.0]]), signs[:, :1] * signs[:, 1:]
    for outputs, share in (
        (signs * jnp.array([[0.5, 0.0]]), (0.25 + 9) / 10),
        (signal + 3 * other, 0),  # other parts of the outputs do not count
    ):
        assert float(experiment.share_missed(outputs, signal)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"learner": "gaussian"}, "net"),
        ({"net": "3layer_bottleneck", "learner": "ntk_infinite"}, "net"),
        ({"composite_degree": 5}, "composite_degree"),
        ({"outputs": 5}, "outputs"),
        ({"search.rung_epochs": (2,)}, "search.rung_keep"),
        ({"search.rung_epochs": (4,), "search.rung_keep": (1,)}, "search.kernel_rung_keep"),
        ({"learner": "ntk_exact", "num_train": 9000}, "num_train"),
        ({"question": "epochs", "beta": 0.0}, "beta"),
        ({"sweep.series": (("3resnet",),)}, "sweep.series"),
        ({"ridges": ()}, "ridges"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(fields, field):
    with pytest.raises(InputError, match=rf"^config\.{field} is .*; accepted: "):
        settings.SETTINGS.validate(configure(**fields))
