"""Lazy or rich on the papers' data: who learns from what, and how it is judged."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lazy_rich.papers import experiment, settings, tasks
from lsa_jax.experiments.lsa.noise_curves import tasks as noise_tasks
from lsa_jax.sweep.experiment import SCRATCH
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

SMALL = {
    "sparse.k": 20,
    "sparse.d": 4,
    "sparse.filters": 8,
    "sparse.num_train": 20,
    "sparse.num_test": 30,
    "sparse.epochs": 2,
    "ridge": (1e-2,),
    "rfm.updates": 1,
    "rfm.points": 5,
}


def points_of(**fields):
    config = set_fields(settings.default_config(), SMALL | fields)
    return make_points(config, settings.sweep(config), settings.validate)


def test_learners_of_a_task_and_seed_share_the_data_and_one_training(tmp_path, monkeypatch):
    learners = ("network", "ntk_trained", "ntk_start", "ntk_wide")
    fields = {"sweep.task": ("figure3",), "sweep.seed": (0, 1), "sweep.learner": learners}
    points = points_of(**fields)
    groups = experiment.groups(points)
    assert [len({p.config.seed for p in group}) for group in groups] == [1, 1]
    trained, made = [], []
    train, make = tasks.train_network, tasks.make_task
    monkeypatch.setattr(tasks, "train_network", lambda *a: trained.append(train(*a)) or trained[-1])
    monkeypatch.setattr(tasks, "make_task", lambda *a: made.append(make(*a)) or made[-1])
    told = []
    found = experiment.run(groups[0], {}, tmp_path, told.append)
    assert len(trained) == len(made) == 1 and told == [0.25, 0.5, 0.75, 1.0]
    by_name = {outcome.metrics["learner"]: outcome.metrics for outcome in found}
    assert set(by_name) == set(learners)
    # The kernel at the start against a plain solution with Jacobians.
    task, key = made[0], jax.random.fold_in(jax.random.key(0), experiment.Papers.RUN)
    start = task.network.init(experiment.init_key(key), (21, 4))
    ntk = kernels.empirical_ntk(task.network.apply, start, task.train.inputs, method="jacobian")
    cross = kernels.empirical_ntk(
        task.network.apply, start, task.test.inputs, task.train.inputs, method="jacobian"
    )
    targets = task.train.targets[:, None]
    outputs = kernels.regress(ntk, targets, cross, ridge=1e-2).predictions
    accuracy = 100 * np.mean(outputs[:, 0] * task.test.targets > 0)
    assert by_name["ntk_start"]["score"] == pytest.approx(accuracy, abs=100 / 30)
    outputs = task.network.apply(trained[0][0], task.train.inputs)[:, 0]
    found = by_name["network"]["train_accuracy"]
    assert found == pytest.approx(np.mean(outputs * task.train.targets > 0))
    assert "train_accuracy" not in by_name["ntk_trained"]
    assert by_name["ntk_wide"]["ridge"] == 1e-2 and by_name["network"]["ridge"] is None


@pytest.mark.slow
def test_a_machine_learns_from_rows_and_goes_on_where_it_was(tmp_path, monkeypatch):
    fields = {"sweep.task": ("figure3",), "sweep.seed": (0,), "sweep.learner": ("rfm",)}
    machines, learn = [], kernels.recursive_feature_machine
    monkeypatch.setattr(
        experiment.kernels,
        "recursive_feature_machine",
        lambda *given, **named: machines.append((named, learn(*given, **named))) or machines[-1][1],
    )
    (group,) = experiment.groups(points_of(**fields))
    (first,) = experiment.run(group, {}, tmp_path, lambda fraction: None)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / SCRATCH).rglob("*.npy")}
    (again,) = experiment.run(group, {}, tmp_path, lambda fraction: None)
    assert first == again and 0 <= first.metrics["score"] <= 100
    assert kept and kept == {path: path.stat().st_mtime_ns for path in kept}
    for named, machine in machines:
        assert (named["updates"], named["points"], named["ridge"]) == (1, 5, 1e-2)
        start, learned = machine.transforms
        np.testing.assert_array_equal(start, np.eye(4))
        assert np.abs(learned - np.diag(np.diag(learned))).max() > 1e-3


def test_the_network_of_many_filters_is_odd_and_one_of_them_is_the_papers(key):
    model = tasks.threshold_filters(5)
    params = model.init(key, (7, 3))
    x = jax.random.normal(key, (4, 7, 3))
    np.testing.assert_allclose(
        model.apply(params, x), -model.apply(params, -x), rtol=1e-4, atol=1e-5
    )
    one = {name: leaf[..., :1] for name, leaf in params.items()} | {"a": jnp.ones(1)}
    paper = tasks.patch_cnn()
    expected = paper.apply({"w": one["w"], "b": one["b"]}, x)
    np.testing.assert_allclose(
        tasks.threshold_filters(1).apply(one, x), expected, rtol=1e-4, atol=1e-5
    )


def test_the_threshold_of_the_sparse_signals_filter_follows_behind_it():
    fields = {"sparse.threshold_warmup_epochs": 3.0, "sparse.epochs": 5, "sparse.num_train": 10}
    (point, *_) = points_of(**fields, **{"sweep.task": ("figure3",), "sweep.seed": (0,)})
    task = tasks.make_task(point.config, {})
    params = task.network.init(jax.random.key(0), (21, 4))
    assert float(jnp.abs(params["w"]).max()) < 1e-5
    rule, ratios = task.optimizer(tasks.steps_of(task)), []
    state = rule.init(params)
    for _ in range(4):  # an epoch is one step
        updates, state = rule.update(jax.tree.map(jnp.ones_like, params), state, params)
        ratios.append(float(updates["b"][0] / updates["w"][0, 0]))
    assert ratios == pytest.approx([1 / 3, 2 / 3, 1, 1], rel=1e-5)


def test_scores_are_accuracies_or_variance_explained():
    targets = np.array([[1.0, 0.0], [3.0, 4.0], [5.0, 2.0]])
    task = tasks.PaperTask(None, Dataset(None, targets), True, None, None, None, None, 1)
    assert experiment.score(task, targets)[0] == pytest.approx(100)
    mean = np.tile(targets.mean(axis=0), (3, 1))
    assert experiment.score(task, mean)[0] == pytest.approx(0, abs=1e-9)
    signs = np.array([1.0, -1.0, 1.0, 1.0])
    task = task._replace(test=Dataset(None, signs), is_regression=False)
    found, error = experiment.score(task, np.array([[2.0], [3.0], [0.1], [4.0]]))
    # Agresti and Coull's: two right and two wrong answers more.
    assert found == 75 and error == pytest.approx(100 * (5 / 8 * 3 / 8 / 8) ** 0.5)


def test_the_error_of_the_variance_explained_is_that_of_the_mean_squared_error():
    generator = np.random.default_rng(0)
    targets, noise = generator.normal(size=(2, 400, 3)) * [1.0, 3.0, 0.5]
    task = tasks.PaperTask(None, Dataset(None, targets), True, None, None, None, None, 1)
    found, error = experiment.score(task, targets + 0.3 * noise)
    # 0.09 of the variance is left, of squares of Gaussians: their own variance is 2 sigma^4.
    assert found == pytest.approx(91, abs=3 * error)
    expected = 100 * 0.09 * (2 * (1 + 81 + 0.5**4)) ** 0.5 / 10.25 / 20
    assert error == pytest.approx(expected, rel=0.2)
    # Errors that are 1 and 3 in turn, squared 1 and 9, and a variance of 16.
    targets = np.tile([[4.0], [4.0], [-4.0], [-4.0]], (25, 1))
    task = task._replace(test=Dataset(None, targets))
    found, error = experiment.score(task, targets + np.tile([[1.0], [3.0]], (50, 1)))
    assert (found, error) == pytest.approx((100 * (1 - 5 / 16), 100 * 4 / 10 / 16))


def small_task(name):
    fields = {"patterns.num_train": 9, "patterns.num_test": 5, "patterns.width": 4}
    fields |= {f"hierarchical.{size}": n for size, n in (("num_train", 9), ("num_test", 5))}
    fields |= {"hierarchical.width": 6}
    (point, *_) = points_of(**fields, **{"sweep.task": (name,), "sweep.seed": (0,)})
    return tasks.make_task(point.config, {})


def rates_of(rule, count, start=0.0):
    """Returns how far a number moves in each step with a slope of 1, put back after it."""
    params, moved = jnp.float32(start), []
    state = rule.init(params)
    for _ in range(count):
        updates, state = rule.update(jnp.float32(1.0), state, params)
        moved.append(-float(updates))
    return moved


def test_the_hierarchical_network_has_momentum_decay_and_a_rate_that_falls_at_half_of_its_steps():
    task, velocity, expected = small_task("hierarchical"), 0.0, []
    for step in range(6):
        velocity = 0.9 * velocity + 1 + 0.005 * 2
        expected.append((0.1 if step < 3 else 0.01) * velocity)
    assert rates_of(task.optimizer(6), 6, start=2.0) == pytest.approx(expected, rel=1e-5)
    outputs, targets = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    losses = task.loss(jnp.asarray(outputs), jnp.asarray(targets))
    np.testing.assert_allclose(losses, np.square(outputs - targets).sum(axis=1) / 2)
    assert task.is_regression and task.wide.size == task.train.inputs.shape[1]


def test_the_hierarchical_network_is_beside_its_own_kernel_at_infinite_width():
    task = small_task("hierarchical")
    own, x = task.network.kernel, jnp.asarray(task.train.inputs)
    turn = np.random.default_rng(0).normal(size=(x.shape[1], x.shape[1])).astype(np.float32)
    kernel = task.wide.of_transform(turn)
    np.testing.assert_allclose(kernel(x), own(x @ turn), rtol=1e-5)
    np.testing.assert_allclose(kernel(x[:2], x), own(x @ turn)[:2], rtol=1e-5)


def test_the_network_on_hidden_patterns_is_trained_by_adam_at_a_cosine():
    expected = 0.01 * (1 + np.cos(np.pi * np.arange(4) / 4)) / 2
    task = small_task("table1")
    assert rates_of(task.optimizer(4), 4) == pytest.approx(expected, rel=1e-4)
    # It has one output, and biases: at no input at all their share of the kernel is left.
    nothing = jnp.zeros((1, *task.train.inputs.shape[1:]))
    params = task.network.init(jax.random.key(0), nothing.shape[1:])
    assert task.network.apply(params, nothing).shape == (1, 1)
    assert float(task.network.kernel(nothing)[0, 0]) > 0.25


def test_the_network_starts_from_the_shape_of_one_example(tmp_path):
    shapes = []

    def init(key, input_shape):
        shapes.append(input_shape)
        return {"w": jnp.ones(input_shape[-1])}

    network = tasks.Model(init, lambda params, x: (x @ params["w"]).sum(1)[:, None], None)
    x = np.random.default_rng(0).normal(size=(12, 5, 3)).astype(np.float32)
    data = Dataset(x, np.sign(x[:, 0, 0]))
    task = tasks.PaperTask(data, data, False, network, None, None, None, 1)
    (point, *_) = points_of(**{"sweep.task": ("figure3",), "sweep.seed": (0,)})
    predictions, ridge = experiment._Group(point.config, task, tmp_path).predict("ntk_start")
    assert shapes == [(5, 3)] and ridge == 1e-2
    # The kernel of a linear network is linear: of the sums over rows.
    sums = x.sum(axis=1)
    gram = sums @ sums.T
    expected = kernels.regress(gram, data.targets[:, None], gram, ridge=1e-2).predictions
    np.testing.assert_allclose(predictions, expected, atol=1e-3)


def test_a_machine_has_the_wide_kernels_ridge_and_a_folder_of_its_own(tmp_path, monkeypatch):
    given = {}

    def of_transform(transform):
        seen = jnp.asarray(transform, jnp.float32)
        return lambda x1, x2: (x1 @ seen) @ (x2 @ seen).T

    def learn(of, inputs, targets, **named):
        given.update(named, targets=targets)
        return SimpleNamespace(kernel=of(np.diag([1.0, 0.0, 0.0])))

    monkeypatch.setattr(experiment.kernels, "recursive_feature_machine", learn)
    x = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    data = Dataset(x, np.sign(x[:, 0]))
    wide = tasks.WideKernel(of_transform, 3)
    task = tasks.PaperTask(data, data, False, None, wide, None, None, 1)
    (point, *_) = points_of(**{"sweep.task": ("figure3",), "sweep.seed": (7,)})
    predictions, ridge = experiment._Group(point.config, task, tmp_path).predict("rfm")
    gram = x[:, :1] @ x[:, :1].T
    expected = kernels.regress(gram, data.targets[:, None], gram, ridge=1e-2).predictions
    np.testing.assert_allclose(predictions, expected, atol=1e-3)
    np.testing.assert_array_equal(given.pop("targets"), data.targets[:, None])
    assert given.pop("key") == jax.random.fold_in(jax.random.key(7), experiment.Papers.POINTS)
    folder = tmp_path / SCRATCH / "learned"
    assert ridge == 1e-2 and given == {
        "size": 3,
        "updates": 1,
        "points": 5,
        "ridge": 1e-2,
        "directory": folder,
    }


def test_a_learner_that_fails_leaves_the_others_and_a_network_tells_how_it_was_trained(
    tmp_path, monkeypatch
):
    rows = [{"epoch": 0, "weight_movement": np.float32(0)}]
    rows += [{"epoch": 2, "train_loss": np.float32(0.25), "weight_movement": np.float32(0.5)}]
    history = experiment.training.History(rows, {}, None, (4, 0.125))
    silent = tasks.Model(None, lambda params, x: jax.nn.relu(x @ params["w"])[:, None], None)
    x = np.ones((6, 2), np.float32)
    data = Dataset(x, np.array([1.0, 1, -1, 1, -1, 1]))
    task = tasks.PaperTask(data, data, False, silent, None, None, None, 2)
    monkeypatch.setattr(tasks, "make_task", lambda config, data: task)
    monkeypatch.setattr(tasks, "train_network", lambda *given: ({"w": -jnp.ones(2)}, history))
    learners = ("ntk_trained", "network")
    fields = {"sweep.task": ("figure3",), "sweep.seed": (0,), "sweep.learner": learners}
    for measures in ((), ("weight_movement",)):
        group = points_of(**fields, measures=measures)
        done = []
        kernel, network = experiment.run(group, {}, tmp_path, done.append)
        assert done == [0.5, 1.0]  # one that failed is done too
        # The kernel of a network whose units are silent is 0.
        assert kernel.status == "failed" and "no unit is active" in kernel.message
        assert kernel.metrics == {"task": "figure3", "learner": "ntk_trained", "seed": 0}
        assert network.metrics["train_loss"] == 0.25
        assert (network.metrics["num_train"], network.metrics["num_classes"]) == (6, 2)
        assert network.metrics.get("weight_movement") == (0.5 if measures else None)
        told = [row.get("weight_movement") for row in network.history]
        assert told == ([None, 0.0, 0.5] if measures else [None])
    monkeypatch.setattr(tasks, "make_task", lambda config, data: task._replace(is_regression=True))
    *_, network = experiment.run(points_of(**fields), {}, tmp_path, lambda fraction: None)
    assert network.metrics["num_classes"] == 0  # a label is a number there


def test_figure_6_is_of_images_in_noise_and_a_network_with_warm_up_and_momentum():
    pixels = np.random.default_rng(0).uniform(0.1, 1, (7, 28, 28, 1)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[np.arange(7)]
    fields = {"sweep.task": ("figure6",), "sweep.seed": (3,), "mnist.noise": 0.5}
    (point, *_) = points_of(**fields, **{"mnist.epochs": 10})
    own = tasks._noise_point(point.config)
    splits = (noise_tasks.Split(pixels[:4], targets[:4], None),)
    splits += (noise_tasks.Split(pixels[4:], targets[4:], None),)
    data = {noise_tasks._data_key(own.config): noise_tasks.ImageTask(*splits)}
    task = tasks.make_task(point.config, data)
    assert task.epochs == 10 and not task.is_regression
    noise = []
    for part, split in zip((task.train, task.test), splits, strict=True):
        assert part.inputs.shape == (len(split.targets), 42, 42, 1)
        np.testing.assert_array_equal(part.targets, split.targets)
        for image, digit in zip(part.inputs, split.images, strict=True):
            corners = [image[r : r + 28, c : c + 28] for r in (0, 14) for c in (0, 14)]
            assert sum(np.array_equal(corner, digit) for corner in corners) == 1
            noise.append(image[~np.isin(image, digit)])
    assert np.std(np.concatenate(noise)) == pytest.approx(0.5, rel=0.05)
    assert task.wide.size == tasks.models.cnn(
        channels=own.config.model.channels
    ).kernel.transform_size((42, 42, 1))
    # Two steps an epoch: the rate rises for five epochs, and the velocity remembers ten steps.
    course = 0.1 * np.arange(1, 7) / 10 * (1 + np.cos(np.pi * np.arange(6) / 20)) / 2
    velocity = np.cumsum(0.9 ** np.arange(6))
    np.testing.assert_allclose(rates_of(task.optimizer(20), 6), course * velocity, rtol=1e-4)


def test_rows_of_theorem_2_are_as_long_as_k_over_its_squared_logarithm():
    fields = {"sweep.task": ("theorem2",), "sweep.seed": (0,), "sparse.k": 60}
    (point, *_) = points_of(**fields, **{"sparse.num_train": 2, "sparse.num_test": 1})
    made = tasks.make_task(point.config, {})
    assert 60 / np.log(60) ** 2 == pytest.approx(3.58, abs=0.01)
    assert made.train.inputs.shape == (2, 61, 4) and made.wide.size == 4


def test_steps_are_those_of_batches_of_fifty_in_all_epochs():
    data = Dataset(np.zeros((101, 2)), np.zeros(101))
    task = tasks.PaperTask(data, data, False, None, None, None, None, 4)
    assert tasks.steps_of(task) == 4 * 3


@pytest.mark.parametrize(
    ("task", "shape", "size"),
    [("theorem2", (21, 2), 2), ("table1", (100,), 100), ("hierarchical", (30,), 30)],
)
def test_wide_kernels_see_what_the_identity_leaves_as_it_is(task, shape, size):
    fields = {"patterns.num_train": 9, "patterns.num_test": 5, "patterns.width": 4}
    (point, *_) = points_of(**fields, **{"sweep.task": (task,), "sweep.seed": (0,)})
    made = tasks.make_task(point.config, {})
    assert made.train.inputs.shape[1:] == shape and made.wide.size == size
    x = made.train.inputs[:4]
    if task == "table1":  # entries of variance 1, as layers expect them
        assert np.mean(np.square(made.train.inputs)) == pytest.approx(1, rel=0.1)
    whole = np.asarray(made.wide.of_transform(np.eye(size))(x, x))
    half = np.asarray(made.wide.of_transform(np.eye(size) / 2)(2 * x, 2 * x))
    np.testing.assert_allclose(whole, half, rtol=1e-4)
