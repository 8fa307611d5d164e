"""One call answers lazy or rich: tasks and networks whose answer is known beforehand."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import pytest
from flax import linen
from sklearn.datasets import load_digits

import lsa_jax
from lsa_jax import kernels, models, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.diagnosis import sizes
from lsa_jax.diagnosis.tasks import make_task
from lsa_jax.errors import InputError
from lsa_jax.reporting.grades import planned_margin

GIVEN = {"measured_examples": 20, "examples": 150, "progress": False}
SMALL = {"seeds": 2, "folds": 1, "measured_examples": 20, "progress": False}


def parity(key, num_examples, d=40, k=2):
    """Labels are the sign of a product of k of d inputs: fixed kernels take many examples."""
    x = np.asarray(jax.random.rademacher(key, (num_examples, d), jnp.float32))
    return x, (np.prod(x[:, :k], axis=1) > 0).astype(int)


def network(width=30, outputs=2, scale=1.0):
    """A two-layer network, whose weights are small at the start where `scale` is."""

    def init(key, input_shape):
        one, two = jax.random.split(key)
        return {
            "w": scale * jax.random.normal(one, (*input_shape, width)) / np.sqrt(input_shape[0]),
            "a": scale * jax.random.normal(two, (width, outputs)) / np.sqrt(width),
        }

    return init, lambda params, x: jax.nn.relu(x @ params["w"]) @ params["a"]


# Programs of the same functions are compiled once.
RICH, ADAM = network(100, scale=0.03), optax.adam(1e-2)


@pytest.fixture(scope="module")
def data():
    return parity(jax.random.key(0), 400), parity(jax.random.key(1), 400)


@pytest.fixture(scope="module")
def rich(data):
    given = SMALL | {"seeds": 3, "examples": 400, "epochs": 100}
    return lsa_jax.diagnose(RICH, *data, optimizer=ADAM, **given)


def test_a_network_that_learns_a_parity_which_its_kernel_cannot_is_rich(rich, data):
    assert rich.word == "rich", str(rich)
    dynamics, features, gain = rich.answer.grades
    assert dynamics.low > 0.5 and features.low > 0 and gain.low > 0
    score = rich.rows.set_index(["learner", "seed"])["test_accuracy"]
    assert score["network"].min() > score["ntk_finite"].max()
    assert gain.number == pytest.approx(100 * (score["network"] - score["ntk_finite"]).mean())
    majority = np.bincount(data[1][1]).max() / 400
    assert rich.rows["chance"].unique() == pytest.approx(majority)


def test_the_answer_prints_three_lines_and_draws_and_is_written(rich, tmp_path):
    lines = str(rich).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["dynamics", "features", "gain", "answer"]
    assert list(rich.table["learner"]) == ["network", "NTK after training", "NTK at the start"]
    assert len(rich.claims) == 3
    figure = rich.figure()
    assert len(figure.axes) == 3  # the last is c along training
    plt.close(figure)
    rich.to_html(tmp_path / "answer.html")
    page = (tmp_path / "answer.html").read_text()
    assert "rich" in page and "data:image/png;base64," in page
    assert "NTK at the start" in page and "ntk_finite" not in page and "NaN" not in page


def test_the_same_sizes_and_key_repeat_the_run(rich, data):
    sizes = rich.sizes._asdict()
    again = lsa_jax.diagnose(RICH, *data, optimizer=ADAM, progress=False, **sizes)
    assert again.rows.equals(rich.rows)


def test_a_linearised_network_has_no_error_of_linearisation(data):
    model = models.scaled(models.mlp(widths=(20,), num_classes=2), math.inf)
    found = lsa_jax.diagnose(model, *data, **SMALL, examples=150, epochs=20)
    errors = found.rows.set_index("learner")["linearization_error"].dropna()
    assert len(errors) == 2 and errors.max() < 1e-5
    kernel = found.rows.set_index("learner")["test_accuracy"]
    assert list(kernel["ntk_trained"]) == list(kernel["ntk_finite"])
    assert found.answer.grades[0].words == ("follows",) and found.word != "rich"


def test_networks_that_did_not_move_are_neither_rich_nor_lazy(data):
    init, apply = network()
    start = init(jax.random.key(0), (40,))
    found = lsa_jax.diagnose((init, apply), *data, params=(start, start), progress=False)
    assert found.word not in ("rich", "lazy")
    trained = found.rows.set_index("learner").loc["network"]
    assert trained["kernel_distance"] == pytest.approx(0, abs=1e-5)


def test_kernels_are_measured_on_all_classes_of_sorted_examples(data):
    (x, y), tested = data
    order, (init, apply) = np.argsort(y, kind="stable"), network()
    start, end = (init(jax.random.key(seed), (40,)) for seed in range(2))
    train = x[order], y[order]
    found = lsa_jax.diagnose((init, apply), train, tested, params=(start, end), progress=False)
    measured = found.rows.set_index("learner").loc["network"]
    # Of one class alone the alignment with the targets, which do not vary, is not defined.
    whole = training.measures.measure(("target_alignment",), apply, start, end, *train)
    assert measured["target_alignment"] == pytest.approx(whole["target_alignment"], rel=1)


def test_kernels_are_exact_regressions_with_the_ridge_of_least_left_out_error(data):
    model = models.mlp(widths=(8,), num_classes=2)
    start, trained = (model.init(jax.random.key(seed), (40,)) for seed in (0, 1))
    found = lsa_jax.diagnose(model, *data, params=[(start, trained)], progress=False)
    (inputs, labels), (tested, answers) = data
    accuracy = found.rows.set_index("learner")["test_accuracy"]
    of_params = {
        name: partial(kernels.empirical_ntk, model.apply, params)
        for name, params in (("ntk_finite", start), ("ntk_trained", trained))
    }
    for name, kernel in (of_params | {"ntk_infinite": model.ntk}).items():
        gram, cross = np.asarray(kernel(inputs)), kernel(tested, inputs)
        targets = np.eye(2)[labels]
        ridge = kernels.leave_one_out_ridge(gram, targets, [10.0**p for p in range(-6, 2)])
        fit = kernels.regress(gram, targets, cross, ridge=ridge).predictions
        expected = np.mean(fit.argmax(axis=1) == answers)
        assert accuracy[name] == pytest.approx(expected, abs=2 / len(answers)), name


def test_real_targets_are_regressed_and_scored_by_r2():
    x = np.asarray(jax.random.normal(jax.random.key(0), (120, 5)))
    y = x @ np.arange(5.0) + 40
    given = SMALL | {"folds": 3, "examples": 120, "epochs": 60}
    found = lsa_jax.diagnose(network(50, outputs=1), x, y, optimizer=optax.adam(1e-2), **given)
    score = found.rows.set_index("learner")["test_r2"]
    assert score.min() > 0.9 and "R^2" in found.task
    assert (found.rows["num_test"] == 120).all()  # each example is tested once


def test_equal_test_targets_are_scored_on_the_scale_of_the_training_set():
    net = init, apply = network(5, outputs=1)
    pair = tuple(init(jax.random.key(seed), (5,)) for seed in (0, 1))
    x = np.asarray(jax.random.normal(jax.random.key(0), (40, 5)))
    y, equal = x @ np.arange(5.0) + 40, np.full(9, 41.3)
    found = lsa_jax.diagnose(net, (x, y), (x[:9], equal), params=pair, progress=False)
    errors = np.asarray(apply(pair[1], x[:9]))[:, 0] - (41.3 - y.mean()) / y.std()
    np.testing.assert_allclose(found.rows["test_r2"][0], 1 - np.mean(errors**2), rtol=1e-4)


def test_advice_is_to_use_examples_that_were_left_out():
    x = np.asarray(jax.random.normal(jax.random.key(0), (200, 5)))
    y = (x[:, 0] + np.random.default_rng(0).normal(size=200) > 0).astype(int)
    given = SMALL | {"folds": 2, "examples": 80, "epochs": 4}
    found = lsa_jax.diagnose(RICH, x, y, optimizer=ADAM, **given)
    helps = [grade.help for grade in found.answer.grades]
    assert any("more test examples" in text for text in helps), str(found)


def test_outputs_that_do_not_fit_the_targets_cost_one_line(data):
    with pytest.raises(InputError, match="^model has 3 outputs"):
        lsa_jax.diagnose(network(outputs=3), *data, **SMALL, examples=150, epochs=2)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "given, named",
    [
        ({"params": 3}, "params"),
        ({"minutes": 0}, "minutes"),
        ({"seeds": 0}, "seeds"),
        ({"batch_size": 0}, "batch_size"),
        ({"optimizer": optax.adam}, "optimizer is .*; accepted: None or an optax"),
    ],
)
def test_an_argument_that_is_not_accepted_is_named(data, given, named):
    with pytest.raises(InputError, match=f"^{named}"):
        lsa_jax.diagnose(network(), *data, **given)


def test_given_parameters_take_a_test_set(data):
    init, _ = network()
    pair = (init(jax.random.key(0), (40,)),) * 2
    with pytest.raises(InputError, match="test set"):
        lsa_jax.diagnose(network(), *data[0], params=pair)
    with pytest.raises(InputError, match="pair"):
        lsa_jax.diagnose(network(), data[0], data[1][1])
    assert lsa_jax.diagnose(network(), *(Dataset(*part) for part in data), params=pair,
                            progress=False)  # fmt: skip


@pytest.mark.parametrize("tested", [None, 500])
@pytest.mark.parametrize(
    "pace", [sizes.Pace(4e-5, 4e-7, 1e-6, 4e-10), sizes.Pace(3e-2, 8e-6, 0, 5e-10)]
)
def test_a_larger_budget_is_spent_on_a_narrower_margin(pace, tested):
    def part(n):
        return np.random.default_rng(n).normal(size=(n, 2)), np.arange(n) % 10

    task = make_task(*part(3000), test=tested and part(tested))
    found = [sizes.choose(task, pace, minutes, 50, {}) for minutes in (0.01, 1, 3, 20, 600)]
    counts = [tested or (n.examples if n.folds > 1 else n.examples // 4) for n in found]
    margins = [planned_margin(n.seeds, count) for n, count in zip(found, counts, strict=True)]
    assert margins == sorted(margins, reverse=True)
    least, *times = (sum(sizes.expected_seconds(n, task, pace, 50)) for n in found)
    for minutes, seconds in zip((1, 3, 20, 600), times, strict=True):
        assert seconds <= max(60 * minutes, 1.25 * least)
    assert found[-1].seeds == 5 and found[0].examples < 3000


def test_seeds_that_share_a_start_are_named(rich, data):
    init, apply = network()
    start = init(jax.random.key(0), (40,))
    shared = (lambda key, shape: start, apply)
    found = lsa_jax.diagnose(shared, *data, **SMALL, examples=400, epochs=2)
    assert "one start" in str(found)
    assert "one start" not in str(rich)


def test_one_output_of_two_classes_is_trained_with_the_logistic_loss(data):
    (x, y), (tested, answers) = data
    targets = {"numbers": y, "signs": 2.0 * y - 1, "rows": np.eye(2)[y]}
    given = SMALL | {"seeds": 1, "epochs": 40, "examples": 400, "optimizer": ADAM}
    net, rows = network(100, outputs=1, scale=0.03), np.eye(2)[answers]
    tests = {"numbers": answers, "signs": 2.0 * answers - 1, "rows": rows}
    found = {
        name: lsa_jax.diagnose(net, (x, own), (tested, tests[name]), **given)
        for name, own in targets.items()
    }
    first = found["numbers"]
    score = first.rows.set_index("learner")["test_accuracy"]
    assert "logistic" in first.task and score["network"] > 0.9 > score["ntk_finite"]
    for other in found.values():
        assert other.rows.equals(first.rows)


class Normalised(linen.Module):
    @linen.compact
    def __call__(self, x, train):
        x = linen.BatchNorm(use_running_average=not train, momentum=0.9)(linen.Dense(20)(x))
        return linen.Dense(2)(linen.Dropout(0.2)(linen.relu(x), deterministic=not train))


def test_start_end_and_jacobian_use_the_statistics_of_the_trained_network(data):
    """c of a network with batch normalisation, from flax's own calls."""
    net, (tested, _) = Normalised(), data[1]
    start, trained = (
        net.init({"params": jax.random.key(seed)}, tested, train=False) for seed in (0, 1)
    )
    trained = trained | {"batch_stats": jax.tree.map(lambda a: a + 0.5, trained["batch_stats"])}
    found = lsa_jax.diagnose(net, *data, params=(start, trained), **GIVEN)

    def run(params):
        variables = {"params": params, "batch_stats": trained["batch_stats"]}
        return net.apply(variables, tested, train=False)

    moved = jax.tree.map(jnp.subtract, trained["params"], start["params"])
    before, linear = jax.jvp(run, (start["params"],), (moved,))
    change = run(trained["params"]) - before
    missed, change = (a - a.mean(1, keepdims=True) for a in (change - linear, change))
    expected = float(jnp.linalg.norm(missed) / jnp.linalg.norm(change))
    row = found.rows.set_index("learner").loc["network"]
    assert row["linearization_error"] == pytest.approx(expected, rel=1e-4)
    assert "batch_stats" in str(found)


def test_c_along_training_ends_with_that_of_the_answer(rich):
    ends = rich.course[rich.course["epoch"] == rich.course["epoch"].max()]
    network_rows = rich.rows[rich.rows["learner"] == "network"]
    np.testing.assert_array_equal(ends["linearization_error"], network_rows["linearization_error"])
    means = rich.course.groupby("epoch")["linearization_error"].mean()
    assert list(means.index[:3]) == [1, 2, 4] and means.iloc[0] < means.iloc[-1]


def digits(classes):
    """Images [n, 64] and class numbers from 0 of some digits, for training and tests."""
    images, labels = load_digits(return_X_y=True)
    kept = np.isin(labels, classes)
    x, y = images[kept].astype(np.float32) / 16, labels[kept] - min(classes)
    return (x[:500], y[:500]), (x[500:], y[500:])


def test_a_network_is_trained_at_rates_of_its_own():
    """With a rate of 0 below the head it moves linearly, as in fine-tuning the head alone."""

    def of_head(shape, optimizer):
        return {"w": 0.0, "a": 1.0}

    train, tested = digits(range(5))
    model = models.Model(*network(64, outputs=5), None)
    sizes = {"examples": 200, "epochs": 20, "seeds": 2, "folds": 1, "measured_examples": 16}
    for factors, at_most in ((of_head, 1e-5), (None, np.inf)):
        own = model._replace(rate_factors=factors)
        found = lsa_jax.diagnose(own, train, tested, **sizes, progress=False)
        assert found.answer.grades[0].number < at_most
    assert found.answer.grades[0].number > 1e-2
