"""Hierarchical targets: learners, kernels and read-outs against formulas, a sweep end to end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import SEARCH, maker

from lsa_jax.experiments.resnet.hierarchical import experiment, kernels, settings, tasks
from lsa_jax.experiments.resnet.shallow import first_features, last_features, shallow
from lsa_jax.sweep.variants import set_fields

TINY = SEARCH | {"batch_size": 20, "num_probe": 40, "watch_every": 2, "width": 6}
TINY["sweep.seed"] = (0, 1)
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
        for signal in ("base", "composite"):
            learned = [r["epoch"] for r in found.history if r[f"{signal}_error"] <= 1 / 2]
            assert found.metrics[f"{signal}_epoch"] == (learned[0] if learned else None)
        for name, value in expected.items():
            assert first[name] == pytest.approx(float(value), rel=1e-3)


def test_kernels_have_rates_of_their_own():
    rates = {"search.learning_rates": (0.5,), "search.kernel_learning_rates": (2.0,)}
    rates |= {"search.weight_decays": (0.25,), "search.kernel_weight_decays": (1.0,)}
    for learner, expected in (("all", (0.5, 0.25)), ("ntk", (2.0, 1.0))):
        found = experiment.candidates(configure(learner=learner, **rates))
        assert (found["learning_rate"].item(), found["weight_decay"].item()) == expected


def test_hopeless_is_so_many_times_the_mean_square_of_the_targets():
    fields = {"search.hopeless": 3.0, "search.rung_epochs": (1, 2), "search.rung_keep": (4, 2)}
    fields |= {"alpha": 0.5, "beta": 2.0, "outputs": 3, "composite_degree": 3}
    plan = experiment.make_plan(configure(**fields))
    assert plan.hopeless == pytest.approx(3 * 3 * (2**2 + 0.5**2)) and plan.rungs == {1: 4, 2: 2}
    task = tasks.make_task(configure(**fields | {"num_train": 4000}))
    squares = np.sum(np.square(np.asarray(task.train.targets)), axis=1)
    assert squares.mean() == pytest.approx(plan.hopeless / 3, rel=0.05)


def test_the_least_last_error_wins_and_every_candidate_has_a_row_an_evaluation(tmp_path):
    fields = {"search__learning_rates": (0.1, 1e30, 0.01), "search__weight_decays": (0.1,)}
    points, shares = make(**fields)[1], []
    found = experiment.run(points, None, tmp_path, shares.append)
    assert shares[-1] == 1 and len({one.outcomes.test for one in found}) == 2  # a seed's own
    for one in found:
        rows = [(row["epoch"], row["learning_rate"]) for row in one.history]
        assert rows == [(epoch, rate) for epoch in (2, 4) for rate in (0.1, 0.01)]
        best = min(one.history[2:], key=lambda row: row["test_error"])
        assert one.metrics["candidates"] == 3 and one.metrics["candidates_finished"] == 2
        assert one.metrics.items() >= {n: best[n] for n in ("test_error", "weight_decay")}.items()
        assert [row["best"] for row in one.history].count(True) == 2 and best["best"]
    lost = make(**fields | {"search__learning_rates": (1e30,)})[1]
    assert experiment.run(lost, None, tmp_path / "lost", print)[0].status == "failed"


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


@pytest.mark.parametrize("learner", ["ntk_exact", "last_exact"])
def test_exact_finite_kernels_are_least_squares_on_derivatives_or_features(learner):
    """Of derivatives, added to the initial outputs; a large ridge learns the mean alone."""
    sizes = {"num_train": 6, "num_test": 30, "num_exact_test": 20, "width": 20}
    config = configure(net="2layer", learner=learner, ridges=(1e-6, 1e6), **sizes)
    task, apply = tasks.make_task(config), tasks.make_network(config).apply
    initial = tasks.initial_params(config)
    data = task.train, [part[: 20 if learner == "ntk_exact" else 30] for part in task.test]
    if learner == "ntk_exact":
        jacobian = jax.jit(jax.jacobian(lambda p, x: apply(p, x).reshape(-1)))

        def features(x):
            leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(jacobian(initial, x))]
            return np.concatenate([leaf.reshape(4 * len(x), -1) for leaf in leaves], axis=1)

        y, expected = (np.asarray(b - apply(initial, a), float) for a, b in data)
    else:

        def features(x):
            return np.asarray(last_features("2layer", initial, x), float)

        y, expected = (np.asarray(b, float) for _, b in data)
    of_train, of_test = (features(x) for x, _ in data)
    y = y.reshape(len(of_train), -1)
    weights = np.linalg.lstsq(of_train, y - y.mean(axis=0), rcond=None)[0]
    found = (y.mean(axis=0) + of_test @ weights).reshape(expected.shape)
    constant = np.broadcast_to(y.mean(axis=0), (len(of_test), y.shape[1])).reshape(expected.shape)
    squares = [np.sum((f - expected) ** 2, axis=1) for f in (found, constant)]
    outcome = kernels.run_exact(config)
    errors = [row["test_error"] for row in outcome.history]
    np.testing.assert_allclose(errors, [np.mean(s) for s in squares], rtol=0.01)
    assert outcome.metrics["test_error"] == min(errors)
    kept = outcome.outcomes.values.astype(float) * np.sqrt(np.var(data[1][1], axis=0).sum())
    np.testing.assert_allclose(np.square(kept), squares[np.argmin(errors)], rtol=0.05)


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


# --- targets --------------------------------------------------------------------------------------


def hierarchy(**fields):
    return tasks.make_hierarchy(set_fields(settings.SETTINGS.default_config(), fields))


def cube(key, count, d):
    return jax.random.rademacher(key, (count, d), jnp.float32)


def test_the_paper_s_target_is_products_of_neighbours_and_one_parity_of_degree_8(key):
    x = cube(key, 40, 30)
    base, composite = tasks.signals(hierarchy(alpha=0.3, beta=0.5), x)
    x = np.asarray(x)
    pairs = np.stack([x[:, 2 * i] * x[:, 2 * i + 1] for i in range(15)], axis=1)
    np.testing.assert_array_equal(base, 0.5 * pairs)
    signs = [-1 if i % 2 else 1 for i in range(1, 16)]
    expected = 0.3 * np.outer(np.prod(x[:, :8], axis=1), signs)
    np.testing.assert_allclose(composite, expected, rtol=1e-6)


def test_fewer_outputs_are_the_first(key):
    x = cube(key, 5, 8)
    few = hierarchy(d=8, base_degree=1, composite_degree=3, outputs=3)
    np.testing.assert_array_equal(few.base(x), x[:, :3])
    product = np.prod(x[:, :3], axis=1)
    expected = np.stack([-product, product, -product], axis=1)
    np.testing.assert_array_equal(few.composite(x[:, :3]), expected)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_polynomials_of_gaussians_have_mean_0_and_variance_1(key, degree):
    z = jax.random.normal(key, (200_000, 2))
    values = np.asarray(tasks.polynomials(jnp.array([[0.6, 0.8]]), degree)(z), float)
    assert abs(values.mean()) < 0.02 and abs(values.var() - 1) < 0.15


def test_smooth_targets_are_functions_of_the_base_signal_s_features(key):
    fields = {"target": "smooth", "d": 6, "outputs": 3, "base_degree": 2, "composite_degree": 1}
    base, composite = tasks.signals(hierarchy(alpha=0.5, **fields), cube(key, 7, 6))
    assert base.shape == composite.shape == (7, 3)
    # Degree 1: alpha times a linear map of F with unit rows.
    matrix = np.linalg.lstsq(np.asarray(base), np.asarray(composite) / 0.5, rcond=None)[0]
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1, rtol=1e-3)
