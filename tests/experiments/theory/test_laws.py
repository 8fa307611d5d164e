"""Laws of the rich regime: training, results of a run, and claims on made-up runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels, models
from lsa_jax.experiments.theory.laws import experiment, report
from lsa_jax.experiments.theory.laws.settings import SETTINGS
from lsa_jax.models.model import Model
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.curvature import sharpness
from lsa_jax.training.losses import squared_error

SMALL = {
    "width": 6,
    "dimension": 5,
    "num_train": 8,
    "num_test": 5,
    "steps": 12,
    "evaluations": 4,
    "measured_examples": 8,
}
GROKKING = {"law": "grokking"}
SCALING = {"law": "scaling", "depth": 3}


def trained(directory, **fields):
    """Returns a point's configuration, its digits, and the outcome of its run."""
    config = set_fields(SETTINGS.default_config(), SMALL | fields)
    points = make_points(config, [{"seed": 3}], SETTINGS.validate)
    data = experiment.load(points, None)
    outcome = experiment.run(points, data, directory, lambda fraction: None)[0]
    return points[0].config, data, outcome


# --- training -----------------------------------------------------------------------------------


def test_lazy_training_is_the_closed_form_of_kernel_gradient_descent(tmp_path):
    fields = {"law": "sharpness", "depth": 3, "output_scale": 1e4, "learning_rate": 0.05}
    config, data, outcome = trained(tmp_path, **fields)
    train, test = experiment.draw(config, data)
    model = experiment.build(config)
    start = model.init(jax.random.fold_in(jax.random.key(3), 0), train.inputs.shape[1:])
    inputs = jnp.concatenate([train.inputs, test.inputs])
    # All entries of the kernel, outputs included: ReLU networks of finite width mix the outputs.
    flat = jax.flatten_util.ravel_pytree(start)
    jacobian = jax.jacobian(lambda p: model.apply(flat[1](p), inputs).reshape(-1))(flat[0])
    gram, n = np.asarray(jacobian @ jacobian.T, float), train.targets.size
    values, vectors = np.linalg.eigh(gram[:n, :n])
    rate = 0.05 / len(train.inputs)
    assert outcome.metrics["start_ratio"] == pytest.approx(rate * values[-1] / 2, rel=2e-3)
    targets = np.asarray(train.targets, float).reshape(-1)
    for row in outcome.history:
        kept = (1 - rate * values) ** row["step"]
        fitted = vectors @ (((1 - kept) / values) * (vectors.T @ targets))
        for name, part, part_of in (("train", slice(n), train), ("test", slice(n, None), test)):
            y = np.asarray(part_of.targets, float).reshape(-1)
            expected = np.sum((gram[part, :n] @ fitted - y) ** 2) / np.sum(y**2)
            assert row[f"{name}_loss"] == pytest.approx(expected, rel=5e-3)


def test_rich_training_is_gradient_descent_on_the_parameters_at_the_rate_over_alpha_squared(
    tmp_path,
):
    alpha, rate = 0.5, 0.2
    config, _, outcome = trained(
        tmp_path, **GROKKING, output_scale=alpha, learning_rate=rate, curvature=0.7
    )
    train, test = experiment.draw(config, None)
    np.testing.assert_allclose(train.targets[:, 0], train.inputs[:, 0] ** 2 / 3**0.5, rtol=1e-6)

    def network(w, x):
        h = x @ w / 5**0.5
        return jnp.sum(h + 0.35 * h**2, axis=1) / 6**0.5

    start = jax.random.normal(jax.random.fold_in(jax.random.key(3), 0), (5, 6))

    def loss(w, data=train):
        outputs = alpha * (network(w, data.inputs) - network(start, data.inputs))
        return 0.5 * jnp.mean((outputs - data.targets[:, 0]) ** 2)

    now, courses = start, {0: start}
    for step in range(1, config.steps + 1):
        now = now - rate / alpha**2 * jax.grad(loss)(now)
        courses[step] = now
    for row in outcome.history:
        for name, data in (("train", train), ("test", test)):
            expected = 2 * loss(courses[row["step"]], data) / np.mean(data.targets**2)
            assert row[f"{name}_loss"] == pytest.approx(float(expected), rel=1e-4)
    grams = [
        kernels.empirical_ntk(lambda w, x: network(w, x)[:, None], w, train.inputs)
        for w in (start, now)
    ]
    cosine = np.sum(grams[0] * grams[1]) / np.linalg.norm(grams[0]) / np.linalg.norm(grams[1])
    assert outcome.history[-1]["kernel_distance"] == pytest.approx(float(1 - cosine), abs=1e-5)


def test_a_rate_that_is_too_large_is_an_outcome_of_the_rate_s_law_and_a_failure_elsewhere(tmp_path):
    _, _, outcome = trained(tmp_path / "rate", learning_rate=1e9, output_scale=1e-3, steps=60)
    assert outcome.status == "ok" and outcome.metrics == {"diverged": True}
    own = GROKKING | {"output_scale": 1.0, "steps": 60}
    _, _, outcome = trained(tmp_path / "grokking", learning_rate=1e6, **own)
    assert outcome.status == "failed" and "lower the learning rate" in outcome.message


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_at_a_balanced_minimum_the_sharpness_in_w_is_alpha_to_the_power_of_the_law(depth):
    """A product of numbers at 1, of which alpha (f - f_0) has to be 1: theta^L = 1 + 1 / alpha."""
    product = Model(
        lambda key, shape: jnp.ones(depth), lambda p, x: jnp.prod(p) * x[:, :1], kernel=None
    )
    alphas, found = 2.0 ** np.array([-14, -18]), []
    for alpha in alphas:
        model, one = models.scaled(product, float(alpha)), np.ones((1, 1), np.float32)
        params = model.init(jax.random.key(0), (1,))
        theta = (1 + 1 / alpha) ** (1 / depth)
        params["moved"] = jnp.full(depth, alpha * (theta - 1), jnp.float32)
        # In w alone, which is trained: 2 / rate is compared with this.
        moved = lambda w, x: model.apply({**params, "moved": w}, x)  # noqa: B023, E731
        found.append(sharpness(moved, params["moved"], one, one, squared_error))
    slope = np.diff(np.log(found)) / np.diff(np.log(alphas))
    assert slope == pytest.approx(-(2 - 2 / depth), abs=0.02)


@pytest.mark.parametrize("phases", ["aligned", "random"])
def test_modes_of_a_circle_s_target_from_k_on_have_their_share_of_its_power(phases):
    own = SMALL | SCALING | {"num_train": 64, "num_test": 32, "source_exponent": 0.4}
    config = set_fields(SETTINGS.default_config(), own | {"phases": phases})
    train, test = experiment.draw(config, None)
    waves = np.fft.rfft(np.asarray(train.targets[:, 0], float)) / 64
    power = 2 * np.abs(waves[1:32]) ** 2
    left = np.cumsum(power[::-1])[::-1]
    np.testing.assert_allclose(left, np.arange(1, 32) ** -0.8, rtol=1e-5)
    assert abs(waves[0]) < 1e-6
    first = np.angle(waves[1])
    assert first == pytest.approx(0, abs=1e-6) if phases == "aligned" else abs(first) > 1e-3
    # The test points lie between those of training, on the same function.
    angle = 2 * np.pi * 1.5 / 32
    np.testing.assert_allclose(test.inputs[1], 2**0.5 * np.array([np.cos(angle), np.sin(angle)]))
    at = np.sum(2 * np.real(waves[1:32] * np.exp(1j * np.arange(1, 32) * angle)))
    assert test.targets[1, 0] == pytest.approx(at, abs=1e-5)
    other = experiment.draw(set_fields(config, {"seed": 1}), None)[0]
    assert np.allclose(other.targets, train.targets) == (phases == "aligned")


@pytest.mark.parametrize("depth", [2, 3])
def test_losses_of_the_infinite_ntk_are_those_of_its_gradient_descent(depth):
    own = SMALL | SCALING | {"num_train": 24, "depth": depth, "phases": "random"}
    config = set_fields(SETTINGS.default_config(), own)
    train, _ = experiment.draw(config, None)
    model, rate = experiment.build(config), 0.3
    gram = np.asarray(kernels.gram(model.kernel, train.inputs), float)
    targets = np.asarray(train.targets, float)[:, 0]
    residual, losses = targets, []
    for _ in range(40):
        losses.append(np.sum(residual**2) / np.sum(targets**2))
        residual = residual - rate * gram @ residual / 24
    found = experiment.kernel_losses(model, train, rate, [0, 1, 7, 39])
    np.testing.assert_allclose(found, np.array(losses)[[0, 1, 7, 39]], rtol=1e-4)


def test_networks_of_digits_are_dense_or_convolutions():
    fields = {"law": "sharpness", "depth": 3}
    for model, dimensions in (("cnn", [4, 4, 2]), ("mlp", [2, 2, 2])):
        config = set_fields(SETTINGS.default_config(), SMALL | fields | {"model": model})
        params = experiment.build(config).init(jax.random.key(0), (8, 8, 1))
        assert sorted(leaf.ndim for leaf in jax.tree.leaves(params)) == sorted(dimensions)


# --- results of a run ---------------------------------------------------------------------------

STEPS = np.array([0, 1, 2, 5, 10, 30, 100, 300, 1000])


def test_a_power_of_the_steps_crosses_a_level_at_its_step():
    values = np.maximum(STEPS, 1.0) ** -0.5
    assert experiment.crossing(STEPS, values, 0.2) == pytest.approx(25.0)
    assert experiment.crossing(STEPS, values, 0.01) == np.inf
    assert experiment.crossing(STEPS, values, 2.0) == 0.0
    rises_again = np.where(STEPS == 30, 1.0, values)
    assert experiment.crossing(STEPS, rises_again, 0.35) == pytest.approx(0.35**-2, rel=1e-6)


def test_the_delay_and_the_kernel_between_the_falls_of_both_losses():
    steps = np.maximum(STEPS, 1.0)
    moved = np.log(steps)
    columns = {"step": STEPS, "train_loss": steps**-1.0, "test_loss": steps**-0.5}
    columns |= {"kernel_distance": moved, "linearization_gap": np.where(STEPS, moved, np.nan)}
    found = experiment.falls(columns)
    first, second = 1 / report.LEVEL, report.LEVEL**-2
    assert (found["train_step"], found["test_step"]) == pytest.approx((first, second))
    assert found["delay"] == pytest.approx(np.log2(second / first)) and found["test_falls"] == 1
    assert found["kernel_between"] == pytest.approx(0.5)  # of log(second), the half is log(first)
    assert found["linearization_gap_test"] == pytest.approx(np.log(second))
    never = experiment.falls(columns | {"test_loss": np.ones(9)})
    assert never["test_falls"] == 0 and never["delay"] == pytest.approx(np.log2(1000 / first))
    assert experiment.falls(columns | {"train_loss": np.ones(9)}) == {"test_falls": 1.0}


def test_the_edge_is_the_mean_of_the_last_half_over_2_over_the_rate():
    columns = {"step": np.array([0, 10, 20, 40]), "sharpness": np.array([2.0, 9.0, 7.0, 9.0])}
    expected = {"start_ratio": 0.5, "edge_ratio": 2.0, "sharpening": 4.0}
    assert experiment.edge(columns, 0.5) == pytest.approx(expected)


def test_powers_are_fitted_to_the_late_steps():
    steps = np.array([0, 1, 10, 30, 100, 300, 1000])
    losses = 0.3 * np.maximum(steps, 1.0) ** -0.4
    losses[steps < 10] = 1.0  # before a hundredth of the steps
    columns = {"step": steps, "train_loss": losses, "kernel_loss": np.maximum(steps, 1) ** -0.25}
    expected = {"exponent": 0.4, "kernel_exponent": 0.25}
    assert experiment.exponents(columns) == pytest.approx(expected)


def test_evaluations_are_even_and_for_grokking_even_in_log_steps():
    config = set_fields(SETTINGS.default_config(), {"steps": 1000, "evaluations": 4})
    assert experiment.marks_of(config) == [0, 1, 334, 667, 1000]
    assert experiment.marks_of(set_fields(config, GROKKING)) == [0, 1, 10, 100, 1000]
