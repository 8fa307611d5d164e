"""Learners that solve: what they hand to a solver, what they keep of it, and what they tell."""

import functools
import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_noise_curves import make_small

from lsa_jax import kernels
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import exact, learners, streamed, tasks

ONE_HOT = np.eye(10, dtype=np.float32)


def kernel(*inputs):
    """Stands for a kernel that nobody calls."""
    raise NotImplementedError


def infinite(noise=0.5, **fields):
    named = {f"ntk_infinite.{name}": value for name, value in fields.items()}
    (point,) = make_small([{"learner": "ntk_infinite", "noise": noise, "seed": 3}], **named)
    return point


def answers(targets, wrong):
    """Returns predictions of which the first so many are wrong."""
    found = targets.astype(np.float64)
    found[:wrong] = np.roll(found[:wrong], 1, axis=1)
    return found


def clock(*times):
    """Returns a clock that shows these times one after the other."""
    return iter(times).__next__


@pytest.fixture
def task():
    """Returns 24 training and 12 test examples whose images are of no matter."""
    nothing = np.zeros((1, 8, 8, 1), np.float32)
    labels = np.random.default_rng(0).integers(0, 10, 36)
    parts = np.split(ONE_HOT[labels], [24])
    return tasks.ImageTask(*(tasks.Split(nothing, targets, None) for targets in parts))


def code(which, index, noise):
    """Returns what stands for images: which split's, of what number, with what noise."""
    of = 1000 * which + np.asarray(index) + noise / 4
    return np.broadcast_to(of[:, None, None, None], (len(of), 1, 2, 3))


@pytest.mark.parametrize("centre_noise", [None, 0.0])
def test_a_stream_is_all_training_images_and_centres_are_some_of_them_in_their_order(
    monkeypatch, tmp_path, task, centre_noise
):
    point = infinite(solver="nystrom", centres=7, centre_noise=centre_noise, ridge=(0.25,))
    point.config.kernel_memory = 5e6
    given, shapes, fractions = {}, [], []

    def compose(config, which, split, replica, index, epoch):
        assert config is point.config and epoch == 0
        inputs = code(which, index, float(replica["noise"]))
        return Dataset(jnp.asarray(inputs), split.targets[np.asarray(index)])

    def solve(kernel, centres, stream, inputs, *, ridge, checkpoint, progress, memory_limit):
        given.update(kernel=kernel, centres=centres, stream=stream, inputs=inputs)
        assert (ridge, memory_limit, checkpoint) == (0.25, 5e6, tmp_path / "s" / "sums.npz")
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.touch()
        progress(0.5)
        both = answers(task.test.targets, 3), answers(task.train.targets[:12], 9)
        nothing = np.zeros((7, 10))
        numbers = {"ridge": 0.25, "num_examples": 24, "rank": 6, "condition": 2.0}
        predictions = np.concatenate(both)
        return kernels.NystromRegression(
            predictions, nothing, nothing[0], train_error=0.125, **numbers
        )

    monkeypatch.setattr(streamed, "_BATCH", 10)
    monkeypatch.setattr(streamed.tasks, "compose", compose)
    monkeypatch.setattr(streamed.kernels, "regress_nystrom", solve)
    monkeypatch.setattr(streamed, "time", SimpleNamespace(monotonic=clock(5.0, 7.1234, 8.0)))

    def run():
        def make_kernel(shape):
            return shapes.append(shape) or kernel

        return streamed.solve(point, task, make_kernel, tmp_path / "s", fractions.append)

    outcome = run()
    assert given["kernel"] is kernel and shapes == [(1, 2, 3)] and fractions == [0.5]
    assert given["stream"].count == 3
    batches = [given["stream"].batch(number) for number in range(3)]
    assert [len(inputs) for inputs, _ in batches] == [10, 10, 4]
    inputs, targets = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    np.testing.assert_array_equal(inputs, code(tasks.TRAIN, range(24), 0.5))
    np.testing.assert_array_equal(targets, task.train.targets)
    of_test, of_train = code(tasks.TEST, range(12), 0.5), code(tasks.TRAIN, range(12), 0.5)
    np.testing.assert_array_equal(given["inputs"], np.concatenate([of_test, of_train]))
    noise = 0.5 if centre_noise is None else 0.0
    places = np.asarray(given["centres"])[:, 0, 0, 0] - noise / 4
    np.testing.assert_array_equal(given["centres"], code(tasks.TRAIN, places, noise))
    assert len(places) == 7 and set(places) < set(range(24)) and (np.diff(places) > 0).all()
    assert places.max() > 7  # they are drawn
    solved = {"ridge": 0.25, "centres": 6, "examples": 24, "condition": 2.0, "train_error": 0.125}
    assert outcome.metrics == {"test_accuracy": 9 / 12, "train_accuracy": 3 / 12} | solved
    assert outcome.history == [outcome.metrics]
    assert outcome.timings == {"matrix_seconds": 2.123}
    assert run().timings == {"matrix_seconds": None}  # the sums were begun before


@pytest.fixture
def examples():
    """Returns 6 training and 2 test examples of ten classes."""
    rng = np.random.default_rng(0)
    targets = (ONE_HOT[:6], ONE_HOT[2:4])
    return [Dataset(jnp.asarray(rng.normal(size=(len(t), 4))), jnp.asarray(t)) for t in targets]


@pytest.fixture
def grams(monkeypatch):
    """Lets matrices be the inputs' products, and returns what was asked for beside them."""
    asked = []

    def gram(kernel, x1, x2=None, *, path, progress, memory_limit, sharded, packed=False):
        asked.append((path, packed, sharded, memory_limit))
        path.parent.mkdir(parents=True, exist_ok=True)
        progress(0.5)
        progress(1.0)
        return np.asarray(x1 @ (x1 if x2 is None else x2).T) + np.eye(
            len(x1), len(x1 if x2 is None else x2)
        )

    monkeypatch.setattr(exact.kernels, "gram", gram)
    return asked


def test_a_factorisation_is_told_by_the_work_of_both_matrices(
    examples, grams, tmp_path, monkeypatch
):
    """Of 6 and 2 images the symmetric matrix is 18 products of 30."""
    monkeypatch.setattr(exact, "time", SimpleNamespace(monotonic=clock(5.0, 7.1234)))
    point, told = infinite(ridge=(0.5,)), []
    point.config.kernel_memory = 5e6
    given = (point, kernel, *examples, tmp_path / "a", tmp_path / "b" / "train.npy")
    outcome = exact._regress(*given, told.append)
    np.testing.assert_allclose(told, [0.3, 0.6, 0.8, 1.0])
    assert outcome.timings == {"matrix_seconds": 2.123}
    paths = (tmp_path / "b" / "train.npy", tmp_path / "a" / "test.npy")
    assert grams == [(path, False, False, 5e6) for path in paths]
    assert outcome.metrics["ridge"] == 0.5 and "solver" not in outcome.metrics
    x, y = (np.asarray(part, float) for part in examples[0])
    gram = x @ x.T + np.eye(6)
    weights = np.linalg.solve(gram + 0.5 * np.trace(gram) / 6 * np.eye(6), y - y.mean(axis=0))
    x_test, y_test = (np.asarray(part, float) for part in examples[1])
    for rows, wanted, name in (
        (gram, y, "train_accuracy"),
        (x_test @ x.T + np.eye(2, 6), y_test, "test_accuracy"),
    ):
        right = (y.mean(axis=0) + rows @ weights).argmax(axis=1) == wanted.argmax(axis=1)
        assert outcome.metrics[name] == pytest.approx(right.mean())


@pytest.mark.parametrize("solver", ["conjugate_gradients", "cholesky_on_disk"])
def test_iterations_are_told_by_the_residual_and_keep_half_of_the_matrix(
    examples, grams, tmp_path, monkeypatch, solver
):
    """Matrices are 0.8 of the work, a residual of 1e-2 half of the way to 1e-4 after that."""
    asked = []

    def solve(gram_train, targets, gram_test, *, progress, **options):
        asked.append(options)
        for residual in (10.0, 1e-2, 1e-6):
            progress(1, residual)
        # A third of the training examples are left over.
        shift = options["ridge"] * np.trace(gram_train) / 6
        left = targets - answers(targets, 2)
        return SimpleNamespace(
            predictions=answers(np.asarray(examples[1].targets), 1),
            weights=left / shift,
            ridge=options["ridge"],
            iterations=4,
            residual=1e-5,
        )

    monkeypatch.setattr(exact.kernels, "regress_cg", solve)
    point, told = infinite(ridge=(0.5,), solver=solver, tolerance=1e-4), []
    folder = tmp_path / "a"
    given = (point, kernel, *examples, folder, tmp_path / "b" / "train.npy")
    outcome = exact._regress(*given, told.append)
    np.testing.assert_allclose(told, [0.24, 0.48, 0.64, 0.8, 0.8, 0.9, 1.0])
    half, whole = tmp_path / "b" / "train_packed.npy", folder / "test.npy"
    assert grams == [(half, True, True, None), (whole, False, True, None)]
    factor = folder / "factor.npy" if solver == "cholesky_on_disk" else None
    kept = {"factor": factor, "checkpoint": folder / "solution.npz"}
    assert asked == [{"ridge": 0.5, "tolerance": 1e-4} | kept]
    solved = {"ridge": 0.5, "iterations": 4, "residual": 1e-5}
    found = dict(outcome.metrics)
    assert found.pop("kernel_gigabytes") == pytest.approx((6 * 6 + 2 * 6) * 8 / 1e9)
    assert found == pytest.approx({"test_accuracy": 0.5, "train_accuracy": 4 / 6} | solved)


def test_a_solver_is_chosen_once_for_one_ridge_with_the_disk_in_mind(
    examples, monkeypatch, tmp_path
):
    asked = []

    def choose(examples, classes, *, disk):
        asked.append((examples, classes, disk))
        return kernels.Choice("conjugate_gradients", "it is faster")

    monkeypatch.setattr(exact.kernels, "choose_solver", choose)
    train, folder = examples[0], tmp_path / "scratch"

    def chosen(**fields):
        return exact._chosen(infinite(**fields).config.ntk_infinite, train, folder)

    assert chosen(solver="cholesky") == ("cholesky", "") and not folder.exists()
    for _ in range(2):  # after a kill it stays
        assert chosen(solver="auto") == ("conjugate_gradients", "it is faster")
    assert asked == [(6, 10, folder)]
    for content in ("{", "[]", '{"solver": "cholesky", "other": 1}'):
        (folder / "solver.json").write_text(content)
        with pytest.raises(InputError, match="solver.json is damaged; remove it"):
            chosen(solver="auto")
    folder = tmp_path / "several"
    folder.mkdir()
    assert chosen(solver="auto", ridge=(0.1, 0.2)).solver == "cholesky" and len(asked) == 1


def test_matrices_on_the_way_are_kept_where_they_are_reported_and_factorised(
    examples, monkeypatch, tmp_path
):
    seen = []

    def learn(kernel, settings, given):
        seen.append(given)
        return [kernel]

    machine = learners.LEARNERS["rfm"]._replace(learn=learn)
    monkeypatch.setitem(learners.LEARNERS, "rfm", machine)
    for every, solver in itertools.product((False, True), ("cholesky", "conjugate_gradients")):
        fields = {"rfm.every_update": every, "rfm.solver": solver}
        (point,) = make_small([{"learner": "rfm", "noise": 0.5, "seed": 3}], **fields)
        exact._learn(point, kernel, examples[0], tmp_path, float)
        assert seen[-1].keep_matrices == (every and solver == "cholesky")
    stream = jax.random.fold_in(jax.random.key(3), exact.NoiseCurves.POINTS)
    assert jnp.array_equal(jax.random.key_data(seen[0].key), jax.random.key_data(stream))
    assert seen[0].inputs is examples[0].inputs and seen[0].directory == tmp_path


@pytest.mark.parametrize(("every", "reported"), [(False, [2]), (True, [0, 1, 2])])
def test_updates_are_told_as_long_as_matrices_and_each_is_judged_by_its_own(
    monkeypatch, tmp_path, task, every, reported
):
    """Two updates take two thirds of three matrices' time; what is reported shares the rest."""
    fields = {"rfm.every_update": every, "rfm.updates": 2}
    (point,) = make_small([{"learner": "rfm", "noise": 0.5, "seed": 3}], **fields)
    told, judged = [], []

    def learn(kernel, settings, given):
        given.progress(0.5)
        given.progress(1.0)
        return [functools.partial(kernel, update) for update in range(3)]

    def regress(point, kernel, train, test, scratch, matrix, progress):
        judged.append((kernel.args[0], scratch, matrix))
        progress(0.5)
        progress(1.0)
        found = {"test_accuracy": kernel.args[0] / 10}
        return exact.Outcome(found, [found])

    machine = learners.LEARNERS["rfm"]._replace(learn=learn)
    monkeypatch.setitem(learners.LEARNERS, "rfm", machine)
    monkeypatch.setattr(exact, "_regress", regress)
    made = {(16, 16, 1): kernel}
    outcome = exact.solve(point, task, made.get, tmp_path, told.append)
    parts = 2 * len(reported)
    np.testing.assert_allclose(told, [1 / 3, 2 / 3, *(2 / 3 + np.arange(1, parts + 1) / parts / 3)])
    assert judged == [
        (i, tmp_path / f"update_{i}", tmp_path / "learned" / f"gram_{i + 1}.npy") for i in reported
    ]
    after = {f"test_accuracy_update_{i}": i / 10 for i in reported} if every else {}
    assert outcome.metrics == {"test_accuracy": 0.2} | after
    assert [row["test_accuracy"] for row in outcome.history] == [i / 10 for i in reported]
