"""One call tells lazy from rich: made-up tasks whose answer is known."""

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import pandas as pd
import pytest

import lsa_jax
from lsa_jax import diagnosis, kernels, models
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves.verdict import Verdict

WIDTH = 30


def parity(key, num_examples, d=20, k=2):
    """Labels are the sign of a product of k of d inputs: fixed kernels take many examples."""
    x = jax.random.rademacher(key, (num_examples, d), jnp.float32)
    labels = (jnp.prod(x[:, :k], axis=1) > 0).astype(int)
    return Dataset(np.asarray(x), np.eye(2, dtype=np.float32)[np.asarray(labels)])


def network(width=WIDTH, scale=1.0):
    """A two-layer network whose outputs are a multiple of themselves, less those at the start."""

    def init(key, input_shape):
        one, two = jax.random.split(key)
        return {
            "w": jax.random.normal(one, (*input_shape, width)) / np.sqrt(input_shape[0]),
            "a": jax.random.normal(two, (width, 2)) / np.sqrt(width),
        }

    return lambda params, x: scale * jax.nn.relu(x @ params["w"]) @ params["a"], init


@pytest.fixture(scope="module")
def split():
    return parity(jax.random.key(0), 150), parity(jax.random.key(1), 400)


@pytest.fixture(scope="module")
def found(split):
    apply, init = network(100)
    return lsa_jax.diagnose(
        apply, init, *split, seeds=3, epochs=300, optimizer=optax.adam(1e-2), ridge=1e-2
    )


def test_a_network_that_learns_a_parity_which_its_kernel_cannot_is_rich(found, split):
    assert found.verdict.word == "rich", found.verdict.sentence
    rows = found.rows.set_index(["learner", "seed"])["test_accuracy"]
    assert rows["network"].min() > rows["ntk_finite"].max()
    assert "the kernel moved by" in found.verdict.sentence
    sizes = found.rows[["num_train", "num_test", "num_classes"]].drop_duplicates()
    assert sizes.to_numpy().tolist() == [[150, 400, 2]]
    assert found.rows["chance"].unique() == pytest.approx(np.mean(split[1].targets, 0).max())
    assert list(found.table["learner"]) == ["network", "NTK after training", "finite NTK"]
    assert found.figure().axes[0].get_title() == "rich"


def test_networks_that_did_not_move_are_never_rich(split):
    apply, init = network()
    start = init(jax.random.key(0), (20,))
    found = lsa_jax.diagnose(apply, init, *split, params=[(start, start)], ridge=1e-2)
    assert found.verdict.word != "rich"
    trained = found.rows.set_index("learner").loc["network"]
    assert trained["kernel_distance"] == pytest.approx(0, abs=1e-5)
    accuracy = found.rows.set_index("learner")["test_accuracy"]
    assert accuracy["ntk_trained"] == accuracy["ntk_finite"]


def test_its_kernels_are_the_exact_regressions_of_the_parameters_that_are_given(split):
    model = models.mlp(widths=(8,), num_classes=2)
    start, trained = (model.init(jax.random.key(seed), (20,)) for seed in (0, 1))
    train, test = split
    found = lsa_jax.diagnose(
        model.apply, model.init, train, test, params=[(start, trained)], kernel=model.ntk
    )
    accuracy = found.rows.set_index("learner")["test_accuracy"]
    found_kernels = {
        name: partial(kernels.empirical_ntk, model.apply, params)
        for name, params in (("ntk_finite", start), ("ntk_trained", trained))
    }
    for name, kernel in (found_kernels | {"ntk_infinite": model.ntk}).items():
        gram, cross = kernel(train.inputs), kernel(test.inputs, train.inputs)
        fit = kernels.regress(gram, train.targets, cross, ridge=1e-3).predictions
        expected = np.mean(fit.argmax(axis=1) == test.targets.argmax(axis=1))
        assert accuracy[name] == pytest.approx(expected, abs=1 / len(test.targets))


def test_without_an_optimizer_it_is_adam_warmed_up_for_a_tenth_and_ended_by_a_cosine(
    split, monkeypatch
):
    # What is trained, and no more.
    monkeypatch.setattr(diagnosis, "_regress", lambda kernel, train, test, ridge: test.targets)
    monkeypatch.setattr(diagnosis, "MEASURES", ("weight_movement",))
    (train, test), (apply, init) = split, network(4)
    steps = 3 * 10  # of 150 examples, 60 at a time

    def rate(step):
        falling = 0.5 * (1 + jnp.cos(jnp.pi * (step - 3) / (steps - 3)))
        return 1e-3 * jnp.where(step < 3, step / 3, falling)

    given = {"seeds": 1, "epochs": 10, "batch_size": 60, "measured_examples": 8}
    plain = lsa_jax.diagnose(apply, init, train, test, **given)
    named = {"key": jax.random.key(0), "optimizer": optax.adam(rate)}
    stated = lsa_jax.diagnose(apply, init, train, test, **given, **named)
    rows = [found.rows.set_index("learner").loc["network"] for found in (plain, stated)]
    moved = [name for name in rows[0].index if name.startswith("weight_movement")]
    assert moved and (rows[0][moved] > 1e-3).all()
    np.testing.assert_allclose(*(row[moved].astype(float) for row in rows), rtol=1e-3)
    given |= {"epochs": 1, "batch_size": 150}  # one step, which is all warm-up
    rows = lsa_jax.diagnose(apply, init, train, test, **given).rows.set_index("learner")
    assert (rows.loc["network", moved] == 0).all()


def test_a_network_that_was_hardly_trained_is_undecided(split):
    short = lsa_jax.diagnose(*network(4), *split, epochs=1, ridge=1e-2)
    fits = short.rows.set_index("learner").loc["network", "train_accuracy"]
    assert len(fits) == 3 and fits.max() < 0.95
    assert short.verdict.word == "undecided" and "fits its training set" in short.verdict.sentence


@pytest.mark.parametrize(("count", "epochs"), [(100, 1000), (150, 667), (4000, 40)])
def test_few_examples_are_trained_on_for_2000_steps_and_many_for_40_epochs(
    count, epochs, monkeypatch
):
    class Asked(Exception):
        pass

    def ask(key, model, train, optimizer, epochs, batch_size):
        raise Asked(epochs)

    monkeypatch.setattr(diagnosis, "_train", ask)
    train = Dataset(np.zeros((count, 2)), np.eye(2)[np.arange(count) % 2])
    with pytest.raises(Asked, match=f"^{epochs}$"):
        lsa_jax.diagnose(*network(), train, train)


def test_a_table_has_percentages_by_learner_and_a_figure_a_point_a_seed():
    learners = ["network", "ntk_finite"] * 2
    rows = pd.DataFrame({"learner": learners, "test_accuracy": [0.5, 0.25, 0.75, 0.25]})
    found = diagnosis.Diagnosis(rows, Verdict("rich", "Rich.", []))
    label, cells = found.table.columns
    assert (label, cells) == ("learner", "test accuracy (%)")
    assert found.table[cells].tolist() == ["62.50 ± 17.68", "25.00 ± 0.00"]
    figure = found.figure()
    points = {tuple(line.get_ydata()): list(line.get_xdata()) for line in figure.axes[0].lines}
    assert points == {("network",) * 2: [50, 75], ("finite NTK",) * 2: [25, 25]}
    plt.close(figure)


def test_targets_that_are_no_classes_and_bad_numbers_are_refused(split):
    apply, init = network()
    train, test = split
    for targets in (train.targets[:, 0], train.targets[:, :1]):
        with pytest.raises(InputError, match="train.targets is"):
            lsa_jax.diagnose(apply, init, Dataset(train.inputs, targets), test)
    for field, value in (("seeds", 0), ("epochs", 0), ("batch_size", 0), ("measured_examples", 1)):
        with pytest.raises(InputError, match=f"{field} is {value}; accepted: "):
            lsa_jax.diagnose(apply, init, train, test, **{field: value})


def test_training_that_diverges_is_refused_with_what_to_change(split):
    given = {"seeds": 1, "epochs": 2, "optimizer": optax.sgd(1e30)}
    with pytest.raises(InputError, match="optimizer: training failed .*smaller learning rate"):
        lsa_jax.diagnose(*network(), *split, **given)
