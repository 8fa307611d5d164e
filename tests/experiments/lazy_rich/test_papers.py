"""Lazy or rich on the papers' data: learners, their scores, and the claims on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax import kernels, models, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lazy_rich.papers import experiment, tasks
from lsa_jax.experiments.lazy_rich.papers.settings import LEARNERS, SETTINGS
from lsa_jax.experiments.lsa.noise_curves import tasks as noise_tasks
from lsa_jax.models.model import Model
from lsa_jax.sweep.experiment import SCRATCH

SMALL = {
    "sparse.k": 20,
    "sparse.d": 4,
    "sparse.filters": 8,
    "sparse.num_train": 20,
    "sparse.num_test": 30,
    "sparse.epochs": 2,
    "patterns.num_train": 9,
    "patterns.num_test": 5,
    "patterns.width": 4,
    "hierarchical.num_train": 9,
    "hierarchical.num_test": 5,
    "hierarchical.width": 6,
    "ridge": (1e-2,),
    "rfm.updates": 1,
    "rfm.points": 5,
    "sweep.seed": (0,),
}
make = maker(SETTINGS, SMALL)


def points_of(task, **fields):
    return make(sweep__task=(task,), **fields)[1]


def task_of(task, data=None, **fields):
    return tasks.make_task(points_of(task, **fields)[0].config, data)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Returns the task, the outcomes of all learners by name, and the group's folder."""
    folder, group = tmp_path_factory.mktemp("group"), points_of("figure3")
    (found,), progress = experiment.EXPERIMENT.groups(group), []
    assert found == group
    by_name = dict(zip(LEARNERS, experiment.run(group, {}, folder, progress.append), strict=True))
    assert progress == [0.2, 0.4, 0.6, 0.8, 1.0]
    return tasks.make_task(group[0].config, {}), by_name, folder


def regression(gram, cross, task):
    targets = np.asarray(task.train.targets)[:, None]
    return kernels.regress(np.asarray(gram), targets, np.asarray(cross), ridge=1e-2).predictions


def test_the_kernel_at_the_start_is_that_of_the_network_s_jacobians(shared):
    task, found, _ = shared
    key = jax.random.fold_in(jax.random.key(0), tasks.RUN)
    start = task.network.init(experiment.init_key(key), (21, 4))
    gram, cross = (
        kernels.empirical_ntk(task.network.apply, start, x, task.train.inputs, method="jacobian")
        for x in (task.train.inputs, task.test.inputs)
    )
    right = regression(gram, cross, task)[:, 0] * task.test.targets > 0
    np.testing.assert_array_equal(found["ntk_start"].outcomes.values, right)
    assert found["ntk_start"].metrics["score"] == pytest.approx(100 * right.mean())


def test_learners_share_one_training_and_one_test_set(shared):
    _, found, _ = shared
    assert len({one.outcomes.test for one in found.values()}) == 1
    assert [name for name, one in found.items() if "train_accuracy" in one.metrics] == ["network"]
    assert found["ntk_wide"].metrics["ridge"] == 1e-2 and found["network"].metrics["ridge"] is None
    for one in found.values():
        assert one.metrics["score"] == pytest.approx(100 * one.outcomes.values.mean())
        assert one.metrics["num_classes"] == 2 and one.metrics["num_test"] == 30


def test_a_machine_continues_from_its_updates(shared, tmp_path):
    _, found, folder = shared
    kept = {path: path.stat().st_mtime_ns for path in (folder / SCRATCH).rglob("*.np?")}
    (again,) = experiment.run(
        points_of("figure3", sweep__learner=("rfm",)), {}, folder, lambda fraction: None
    )
    assert again.metrics == found["rfm"].metrics
    assert kept and kept == {path: path.stat().st_mtime_ns for path in kept}


def test_the_network_of_many_filters_is_odd_and_one_of_them_is_the_papers(key):
    model, x = tasks.threshold_filters(5), jax.random.normal(key, (4, 7, 3))
    params = model.init(key, (7, 3))
    odd = -model.apply(params, -x)
    np.testing.assert_allclose(model.apply(params, x), odd, rtol=1e-4, atol=1e-5)
    # Of equal filters the sum is sqrt(m) times one.
    equal = jax.tree.map(lambda leaf: jnp.repeat(leaf[..., :1], 5, axis=-1), params)
    paper = tasks.patch_cnn().apply({n: params[n][..., :1] for n in ("w", "b")}, x)
    expected = np.sqrt(5) * float(params["a"][0]) * np.asarray(paper)
    np.testing.assert_allclose(model.apply(equal, x), expected, rtol=1e-4, atol=1e-5)


def test_the_threshold_of_the_sparse_signals_filter_follows_behind_it():
    fields = {"sparse__threshold_warmup_epochs": 3.0, "sparse__epochs": 5, "sparse__num_train": 10}
    task = task_of("figure3", **fields)
    params = task.network.init(jax.random.key(0), (21, 4))
    assert float(jnp.abs(params["w"]).max()) < 1e-5
    rule, ratios = task.optimizer(tasks.steps_of(task)), []
    state = rule.init(params)
    for _ in range(4):  # an epoch is one step
        updates, state = rule.update(jax.tree.map(jnp.ones_like, params), state, params)
        ratios.append(float(updates["b"][0] / updates["w"][0, 0]))
    assert ratios == pytest.approx([1 / 3, 2 / 3, 1, 1], rel=1e-5)


def made_up(targets, is_regression, network=None):
    data = Dataset(np.ones((len(targets), 2), np.float32), targets)
    return tasks.PaperTask(data, data, network, None, None, None, 4, is_regression)


def test_scores_are_accuracies_or_variance_explained():
    targets = np.array([[1.0, 0.0], [3.0, 4.0], [5.0, 2.0]])
    task, mean = made_up(targets, True), np.tile(targets.mean(axis=0), (3, 1))
    assert experiment.measure(task, targets)[0] == pytest.approx(100)
    assert experiment.measure(task, mean)[0] == pytest.approx(0, abs=1e-9)
    signs = np.array([1.0, -1.0, 1.0, 1.0])
    outputs = np.array([[2.0], [3.0], [0.1], [4.0]])
    found, error, kept = experiment.measure(made_up(signs, False), outputs)
    # Agresti and Coull's: two right and two wrong answers more.
    assert found == 75 and error == pytest.approx(100 * (5 / 8 * 3 / 8 / 8) ** 0.5)
    assert kept.values.tolist() == [True, False, True, True]


def test_the_error_of_the_variance_explained_is_that_of_the_mean_squared_error():
    """Errors are 1 and 3 in turn, squared 1 and 9, and the variance is 16."""
    targets = np.tile([[4.0], [4.0], [-4.0], [-4.0]], (25, 1))
    outputs = targets + np.tile([[1.0], [3.0]], (50, 1))
    found, error, kept = experiment.measure(made_up(targets, True), outputs)
    assert (found, error) == pytest.approx((100 * (1 - 5 / 16), 100 * 4 / 10 / 16))
    assert kept.values[:2].tolist() == [1 / 4, 3 / 4]


def moves_of(rule, count, start=0.0):
    """Returns how far a number moves in each step with a slope of 1, put back after it."""
    params, moved = jnp.float32(start), []
    state = rule.init(params)
    for _ in range(count):
        updates, state = rule.update(jnp.float32(1.0), state, params)
        moved.append(-float(updates))
    return moved


def test_the_hierarchical_network_has_momentum_decay_a_falling_rate_and_its_own_kernel():
    task, velocity, expected = task_of("hierarchical"), 0.0, []
    for step in range(6):  # the rate falls at half of the steps
        velocity = 0.9 * velocity + 1 + 0.005 * 2
        expected.append((0.1 if step < 3 else 0.01) * velocity)
    assert moves_of(task.optimizer(6), 6, start=2.0) == pytest.approx(expected, rel=1e-5)
    outputs, targets = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    found = task.loss(jnp.asarray(outputs), jnp.asarray(targets))
    np.testing.assert_allclose(found, np.square(outputs - targets).sum(axis=1) / 2)
    own, x = task.network.kernel, jnp.asarray(task.train.inputs)
    turn = np.random.default_rng(0).normal(size=(x.shape[1], x.shape[1])).astype(np.float32)
    kernel = task.wide.of_transform(turn)
    np.testing.assert_allclose(kernel(x), own(x @ turn), rtol=1e-5)
    np.testing.assert_allclose(kernel(x[:2], x), own(x @ turn)[:2], rtol=1e-5)
    assert task.is_regression


def test_the_network_on_hidden_patterns_learns_them_from_the_papers_two_steps(tmp_path):
    sizes = {"num_train": 1000, "num_test": 500, "width": 100, "epochs": 20}
    task = task_of("table1", **{f"patterns__{name}": size for name, size in sizes.items()})
    key, (inputs, targets) = jax.random.key(0), task.test
    inputs, train = map(jnp.asarray, (inputs, task.train.inputs))
    params, _ = tasks.train_network(key, task, tmp_path, training.Measuring())
    assert training.is_correct(task.network.apply(params, inputs), targets).mean() > 0.9
    # Its kernel at the start, before the two steps, does not.
    kernel = kernels.finite_kernel(task.network.apply, task.network.init(key, inputs.shape[1:]))
    outputs = regression(kernel(train), kernel(inputs, train), task)
    assert training.is_correct(outputs, targets).mean() < 0.85
    # Layers of the wide kernel expect entries of variance 1.
    wide = task.wide.of_transform(np.eye(task.wide.size))
    scaled = train[:4] / np.sqrt(np.mean(np.square(train)))
    own = models.mlp(widths=(9,), num_classes=1, b_std=0.5).kernel
    np.testing.assert_allclose(wide(train[:4]), own(scaled), rtol=0.02)


def test_figure_6_is_of_images_in_noise_and_a_network_with_warm_up_and_momentum():
    pixels = np.random.default_rng(0).uniform(0.1, 1, (7, 28, 28, 1)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[np.arange(7)]
    fields = {"mnist__noise": 0.5, "mnist__epochs": 10, "sweep__seed": (3,)}
    own = tasks._noise_point(points_of("figure6", **fields)[0].config)
    splits = [noise_tasks.Split(pixels[own], targets[own], None) for own in (slice(4), slice(4, 7))]
    data = {noise_tasks._data_key(own.config): noise_tasks.ImageTask(*splits)}
    task, noise = task_of("figure6", data, **fields), []
    assert task.epochs == 10 and not task.is_regression
    for part, split in zip((task.train, task.test), splits, strict=True):
        assert part.inputs.shape == (len(split.targets), 42, 42, 1)
        np.testing.assert_array_equal(part.targets, split.targets)
        for image, digit in zip(part.inputs, split.images, strict=True):
            corners = [image[r : r + 28, c : c + 28] for r in (0, 14) for c in (0, 14)]
            assert sum(np.array_equal(corner, digit) for corner in corners) == 1
            noise.append(image[~np.isin(image, digit)])
    assert np.std(np.concatenate(noise)) == pytest.approx(0.5, rel=0.05)
    # Two steps an epoch: the rate rises for five epochs, and the velocity remembers ten steps.
    course = 0.1 * np.arange(1, 7) / 10 * (1 + np.cos(np.pi * np.arange(6) / 20)) / 2
    velocity = np.cumsum(0.9 ** np.arange(6))
    np.testing.assert_allclose(moves_of(task.optimizer(20), 6), course * velocity, rtol=1e-4)


@pytest.mark.parametrize(
    ("task", "shape", "size"),
    [("theorem2", (61, 4), 4), ("table1", (100,), 100), ("hierarchical", (30,), 30)],
)
def test_wide_kernels_are_of_inputs_times_the_transform(task, shape, size):
    """Rows of theorem 2 are about 60 / log(60)^2 = 3.6 long."""
    made = task_of(task, sparse__k=60)
    assert made.train.inputs.shape[1:] == shape and made.wide.size == size
    x = made.train.inputs[:4]
    whole = np.asarray(made.wide.of_transform(np.eye(size))(x, x))
    half = np.asarray(made.wide.of_transform(np.eye(size) / 2)(2 * x, 2 * x))
    np.testing.assert_allclose(whole, half, rtol=1e-4)
    if task == "theorem2":  # of many random filters at their start
        params = tasks.threshold_filters(8).init(tasks.stream(points_of(task)[0].config, 2), shape)
        expected = kernels.empirical_ntk(tasks.threshold_filters(8).apply, params, x)
        np.testing.assert_allclose(whole, expected, rtol=1e-4)


def test_a_learner_that_fails_leaves_the_others(tmp_path, monkeypatch):
    history = experiment.training.History([{"train_loss": np.float32(0.25)}], {}, None, None)
    silent = Model(None, lambda params, x: jax.nn.relu(x @ params["w"])[:, None], None)
    task = made_up(np.array([1.0, 1, -1, 1, -1, 1]), False, silent)
    monkeypatch.setattr(tasks, "make_task", lambda config, data: task)
    monkeypatch.setattr(tasks, "train_network", lambda *given: ({"w": -jnp.ones(2)}, history))
    points = points_of("figure3", sweep__learner=("ntk_trained", "network"))
    kernel, network = experiment.run(points, {}, tmp_path, lambda fraction: None)
    # The kernel of a network whose units are silent is 0.
    assert kernel.status == "failed" and "no unit is active" in kernel.message
    assert network.metrics["train_loss"] == 0.25 and network.status == "ok"
