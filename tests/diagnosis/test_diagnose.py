"""One call answers lazy or rich: tasks and networks whose answer is known beforehand."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import pytest

import lsa_jax
from lsa_jax import kernels, models
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError

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


@pytest.fixture(scope="module")
def data():
    return parity(jax.random.key(0), 400), parity(jax.random.key(1), 400)


@pytest.fixture(scope="module")
def rich(data):
    given = SMALL | {"seeds": 3, "examples": 400, "epochs": 100}
    return lsa_jax.diagnose(network(100, scale=0.03), *data, optimizer=optax.adam(1e-2), **given)


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
    assert len(figure.axes) == 2
    plt.close(figure)
    rich.to_html(tmp_path / "answer.html")
    page = (tmp_path / "answer.html").read_text()
    assert "rich" in page and "data:image/png;base64," in page


def test_the_same_sizes_and_key_repeat_the_run(rich, data):
    again = lsa_jax.diagnose(
        network(100, scale=0.03),
        *data,
        optimizer=optax.adam(1e-2),
        progress=False,
        **rich.sizes._asdict(),
    )
    assert again.rows.equals(rich.rows)


def test_a_linearised_network_has_no_error_of_linearisation(data):
    model = models.scaled(models.mlp(widths=(20,), num_classes=2), math.inf)
    found = lsa_jax.diagnose(model, *data, **SMALL, examples=150, epochs=20)
    errors = found.rows.set_index("learner")["linearization_error"].dropna()
    assert len(errors) == 2 and errors.max() < 1e-5
    kernel = found.rows.set_index("learner")["test_accuracy"]
    assert list(kernel["ntk_trained"]) == list(kernel["ntk_finite"])
    assert found.answer.grades[0].words == ("follows",) and found.word != "rich"


def test_linearisation_errors_fall_with_the_output_scale(data):
    def error(alpha):
        model = models.scaled(models.mlp(widths=(30,), num_classes=2), alpha)
        found = lsa_jax.diagnose(
            model, *data, **SMALL | {"seeds": 1}, examples=150, epochs=30,
            optimizer=optax.sgd(0.5 * min(1, alpha)),
        )  # fmt: skip
        return found.rows["linearization_error"].dropna().item()

    errors = [error(alpha) for alpha in (0.25, 4.0, 64.0)]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 0.1


def test_networks_that_did_not_move_are_neither_rich_nor_lazy(data):
    init, apply = network()
    start = init(jax.random.key(0), (40,))
    found = lsa_jax.diagnose((init, apply), *data, params=(start, start), progress=False)
    assert found.word not in ("rich", "lazy")
    trained = found.rows.set_index("learner").loc["network"]
    assert trained["kernel_distance"] == pytest.approx(0, abs=1e-5)


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


def test_outputs_that_do_not_fit_the_targets_cost_one_line(data):
    with pytest.raises(InputError, match="^model has 3 outputs"):
        lsa_jax.diagnose(network(outputs=3), *data, **SMALL, examples=150, epochs=2)


@pytest.mark.parametrize(
    "given, named",
    [
        ({"params": 3}, "params"),
        ({"minutes": 0}, "minutes"),
        ({"seeds": 0}, "seeds"),
        ({"batch_size": 0}, "batch_size"),
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


def test_sizes_are_chosen_for_the_budget(data, capsys):
    x, y = (np.concatenate(parts) for parts in zip(*data, strict=True))
    found = lsa_jax.diagnose(network(), x, y, minutes=0.05, epochs=2)
    assert found.sizes.seeds == 3 and found.sizes.examples < len(y)
    assert str(found.sizes) in capsys.readouterr().out


def test_seeds_that_share_a_start_are_named(data):
    init, apply = network()
    start = init(jax.random.key(0), (40,))
    shared = (lambda key, shape: start, apply)
    found = lsa_jax.diagnose(shared, *data, **SMALL, examples=400, epochs=2)
    assert "one start" in str(found)
    found = lsa_jax.diagnose((init, apply), *data, **SMALL, examples=400, epochs=2)
    assert "one start" not in str(found)
