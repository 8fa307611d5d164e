"""Active neurons: counted as defined, without a trace in the training, and reported as found."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lsa_jax import models, parallel, training
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.activation_sparsity import experiment as activation_sparsity
from lsa_jax.experiments.lsa.activation_sparsity import report as activation_sparsity_report
from lsa_jax.experiments.lsa.activation_sparsity import settings
from lsa_jax.experiments.lsa.noise_curves import experiment as noise_curves
from lsa_jax.experiments.lsa.noise_curves.learners import Trained
from lsa_jax.models.layers import Conv, Dense, Flatten, Relu, Residual
from lsa_jax.reporting import files
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields


def test_fractions_of_an_mlp_equal_a_count(key):
    model = models.mlp(1, 3, widths=(20, 10))
    x = np.random.default_rng(0).normal(size=(5, 6))

    @jax.jit
    def compute(key, x):
        params = model.init(key, (6,))
        watched = activation_sparsity.active_fractions(model, params, x)
        return params, model.apply(params, x), *watched

    params, expected, outputs, fractions = compute(key, x.astype(np.float32))
    first = x @ np.asarray(params["Dense_0"]["weight"], float)
    second = np.maximum(first, 0) @ np.asarray(params["Dense_1"]["weight"], float)
    np.testing.assert_allclose(fractions["Relu_0"], (first > 0).mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(fractions["Relu_1"], (second > 0).mean(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(outputs, expected)


def test_layers_are_named_from_the_input_to_the_output():
    blocks = [f"Residual_{i}/branch/Relu_{j}" for i in range(3) for j in range(2)]
    # Also where the network averages over the parts of a batch.
    network = models.wide_resnet(1, 10, batch_axis=parallel.BATCH_AXIS)
    assert activation_sparsity.layer_names(network, (32, 32, 3)) == [*blocks, "Relu_0"]
    with pytest.raises(InputError, match="no ReLU"):
        activation_sparsity.layer_names(models.network([Dense(2)]), (3,))


def test_a_residual_networks_activations_are_those_of_its_parts(key):
    model = models.network([Residual((Relu(), Conv(3))), Relu(), Flatten(), Dense(2)])
    x = np.random.default_rng(0).normal(size=(2, 4, 4, 3)).astype(np.float32)
    compute = jax.jit(lambda key, x: model.activations(model.init(key, (4, 4, 3)), x))
    _, activations = compute(key, x)
    np.testing.assert_array_equal(activations["Residual_0/branch/Relu_0"], np.maximum(x, 0))
    assert activations["Relu_0"].shape == (2, 4, 4, 3)


def test_watching_does_not_change_the_gradients(monkeypatch, tmp_path):
    """What is trained is the network's own loss; each layer has a column of its own."""
    given = {}

    def record(key, model, source, loss, optimizer, *, evaluation, **options):
        metrics = evaluation.metrics
        given.update(model=model, loss=loss, metrics=metrics, measuring=evaluation.measuring)
        zeros = {f"{split}_{name}": 0.0 for split in ("train", "test") for name in metrics}
        return None, training.History([{"epoch": 1, **zeros}], {}, None)

    monkeypatch.setattr(noise_curves.training, "train", record)
    fields = {"data.num_train": 16, "data.num_test": 8, "model.name": "mlp"}
    fields["measures"] = ("kernel_distance",)
    config = set_fields(settings.default_config(), fields | {"model.widths": (6, 5)})
    points = make_points(config, settings.sweep(config), settings.validate)
    experiment = activation_sparsity.EXPERIMENT
    data = experiment.load(points, None)
    (outcome,) = experiment.run(points, data, tmp_path, lambda fraction: None)
    columns = [name for name in outcome.metrics if name.startswith("test_active")]
    assert columns == ["test_active_1", "test_active_2"] and outcome.metrics["noise"] == 0.0

    plain = noise_curves.build_model(config, "network", 10)
    # Lazy or rich is measured of the network itself.
    assert given["measuring"][:3] == (("kernel_distance",), None, plain.apply)
    loss = training.LOSSES[config.network.loss]

    @jax.jit
    def compare(key):
        params = plain.init(key, (16, 16, 1))
        inputs, targets = jax.random.normal(key, (4, 16, 16, 1)), jnp.eye(10)[:4]
        outputs = given["model"].apply(params, inputs)
        gradients = [
            jax.grad(lambda p, m=model, f=of: f(m.apply(p, inputs), targets).sum())(params)
            for model, of in ((plain, loss), (given["model"], given["loss"]))
        ]
        fractions = activation_sparsity.active_fractions(plain, params, inputs)[1]
        measured = [given["metrics"][f"active_{i}"](outputs, targets) for i in (1, 2)]
        return gradients, list(fractions.values()), measured

    (expected, found), fractions, measured = compare(jax.random.key(0))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), expected, found
    )
    np.testing.assert_array_equal(fractions, measured)


@pytest.mark.parametrize(
    ("end", "status"), [(0.3, "shown"), (0.6, "not shown"), (0.48, "undecided")]
)
def test_the_claim_follows_the_numbers(tmp_path, end, status):
    results = []
    for seed in range(3):
        rows = [
            {"epoch": epoch, "test_active_1": fraction + 0.01 * seed * epoch, "test_active_2": 0.5}
            for epoch, fraction in ((1, 0.5), (2, end))
        ]
        rows.insert(0, {"epoch": 0, "kernel_distance": 0.0})
        run = {"id": f"seed={seed}", "noise": 0.0, "seed": seed, "status": "ok"}
        files.write_run(tmp_path, run["id"], run | {"test_accuracy": 0.5}, rows)
        results.append(run | {"test_accuracy": 0.5})
    report = activation_sparsity_report.make_report(
        settings.default_config(), pd.DataFrame(results), tmp_path
    )
    by_layer = {claim.item.split(", ")[1]: claim for claim in report.claims}
    assert by_layer["ReLU 1"].ours == pytest.approx(100 * (end - 0.5) + 1)
    assert by_layer["ReLU 1"].status == status
    assert by_layer["mean of the layers"].status == status
    assert by_layer["ReLU 2"].status == "condition not met"  # all seeds are equal
    guessed = pd.DataFrame(results).assign(test_accuracy=0.1)
    guessed = activation_sparsity_report.make_report(settings.default_config(), guessed, tmp_path)
    assert {claim.status for claim in guessed.claims} == {"condition not met"}


def reported(workdir, ends, accuracies, layers=2):
    """Returns the report on two seeds of every scale of noise, whose activity falls from 0.5."""
    rows = []
    for noise, end in ends.items():
        for seed in (0, 1):
            fractions = [
                {f"test_active_{i + 1}": at / (i + 1) for i in range(layers)}
                for at in (0.5, end + 1e-9 * seed)
            ]
            history = [{"epoch": epoch} | found for epoch, found in enumerate(fractions)]
            row = {"id": f"{noise}-{seed}", "noise": noise, "seed": seed, "status": "ok"}
            row["test_accuracy"] = accuracies[noise] + 0.02 * seed
            files.write_run(workdir, row["id"], row, history[::-1])
            rows.append(row)
    failed = rows[0] | {"id": "failed", "status": "failed", "test_accuracy": 0.0}
    results = pd.DataFrame([*rows, failed])
    fields = {"sweep.noise": tuple(ends), "sweep.seed": (0, 1)}
    config = set_fields(settings.default_config(), fields)
    return activation_sparsity_report.make_report(config, results, workdir)


def test_layers_are_in_the_network_s_order_and_their_mean_is_one_of_them(tmp_path):
    found = reported(tmp_path, {0.0: 0.25}, {0.0: 0.5}, layers=11)
    ((_, ends), (_, accuracy)) = found.tables
    names = [f"ReLU {i + 1}" for i in range(11)] + ["mean of the layers"]
    assert ends["layer"].tolist() == names
    each = 50 / np.arange(1, 12)
    np.testing.assert_allclose(ends["first"], [*each, each.mean()])
    np.testing.assert_allclose(ends["last"], [*(each / 2), each.mean() / 2])
    np.testing.assert_allclose(accuracy["test_accuracy"], [51.0])
    items = [claim.item.split("training, ")[1] for claim in found.claims]
    assert items == [names[-1], *names[:-1]]
    ours = [claim.ours for claim in found.claims]
    np.testing.assert_allclose(ours, [-each.mean() / 2, *(-each / 2)], atol=0.006)
    figure = found.figures["activation_sparsity"]()
    lines = {line.get_label(): line.get_data() for line in figure.axes[0].lines}
    np.testing.assert_allclose(lines["ReLU 2"], [[0, 1], [25, 12.5]])
    plt.close(figure)


def test_a_scale_of_noise_is_named_where_there_are_two_and_judged_by_its_own_accuracy(tmp_path):
    """Of ten classes an accuracy of 0.12 is near chance with 500 images, which of 11 it is not."""
    found = reported(tmp_path, {2.0: 0.25, 0.0: 0.125}, {2.0: 0.11, 0.0: 0.14})
    assert [claim.item.split(", ")[-1] for claim in found.claims] == ["noise 2"] * 3 + [
        "noise 0"
    ] * 3
    statuses = [claim.status for claim in found.claims]
    assert statuses == ["condition not met"] * 3 + ["shown"] * 3
    assert [claim.ours for claim in found.claims[1::3]] == [-25.0, -37.5]
    assert found.tables[1][1]["test_accuracy"].tolist() == pytest.approx([15.0, 12.0])
    figure = found.figures["activation_sparsity"]()
    assert [axis.get_title() for axis in figure.axes] == ["noise 2", "noise 0"]
    plt.close(figure)


def test_what_is_watched_of_a_linearised_network_is_in_what_it_was_made_of(key):
    """Its outputs are those that are trained, its activity that of the network they stand for."""
    model = models.mlp(1, 3, widths=(7,))
    params = {"moved": model.init(key, (6,))}
    twice = model._replace(apply=lambda params, x: 2 * model.apply(params["moved"], x))
    x = jax.random.normal(key, (5, 6))
    for trained, factor in ((Trained(twice, network=lambda p: p["moved"]), 2), (Trained(model), 1)):
        given = params if factor == 2 else params["moved"]
        found = np.asarray(activation_sparsity.watched(model, trained).model.apply(given, x))
        hidden = np.asarray(x) @ np.asarray(params["moved"]["Dense_0"]["weight"])
        assert found.shape == (5, 4)
        expected = factor * np.asarray(model.apply(params["moved"], x))
        np.testing.assert_allclose(found[:, :3], expected, rtol=1e-5)
        np.testing.assert_allclose(found[:, 3], (hidden > 0).mean(axis=1), rtol=1e-6)
