"""Active neurons: counted as defined, without an effect on training, and reported as found."""

import jax
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax import models, parallel
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.activation_sparsity import experiment
from lsa_jax.experiments.lsa.activation_sparsity.experiment import EXPERIMENT
from lsa_jax.experiments.lsa.activation_sparsity.settings import SETTINGS
from lsa_jax.experiments.lsa.noise_curves.learners import Trained
from lsa_jax.models import Dense


def test_fractions_of_an_mlp_equal_a_count(key):
    model = models.mlp(1, 3, widths=(20, 10))
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    params = model.init(key, (6,))
    outputs, fractions = jax.jit(lambda p, x: experiment.active_fractions(model, p, x))(params, x)
    first = x @ np.asarray(params["Dense_0"]["weight"], float)
    second = np.maximum(first, 0) @ np.asarray(params["Dense_1"]["weight"], float)
    np.testing.assert_allclose(fractions["Relu_0"], (first > 0).mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(fractions["Relu_1"], (second > 0).mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(outputs, model.apply(params, x), rtol=1e-6)


def test_layers_are_named_from_the_input_to_the_output():
    blocks = [f"Residual_{i}/branch/Relu_{j}" for i in range(3) for j in range(2)]
    # Also where the network averages over the parts of a batch.
    network = models.wide_resnet(1, 10, batch_axis=parallel.BATCH_AXIS)
    assert experiment.layer_names(network, (32, 32, 3)) == [*blocks, "Relu_0"]
    with pytest.raises(InputError, match="no ReLU"):
        experiment.layer_names(models.network([Dense(2)]), (3,))


def test_the_watched_network_has_its_outputs_and_the_activity_of_the_plain_one(key):
    """Also where the outputs that are trained are others, made of the network's parameters."""
    model = models.mlp(1, 3, widths=(7,))
    plain = model.init(key, (6,))
    twice = model._replace(apply=lambda params, x: 2 * model.apply(params["moved"], x))
    x = jax.random.normal(key, (5, 6))
    hidden = np.asarray(x) @ np.asarray(plain["Dense_0"]["weight"])
    for trained, params, factor in (
        (Trained(twice, network=lambda p: p["moved"]), {"moved": plain}, 2),
        (Trained(model), plain, 1),
    ):
        found = np.asarray(experiment.watched(model, trained).model.apply(params, x))
        assert found.shape == (5, 4)
        expected = factor * np.asarray(model.apply(plain, x))
        np.testing.assert_allclose(found[:, :3], expected, rtol=1e-5)
        np.testing.assert_allclose(found[:, 3], (hidden > 0).mean(axis=1), rtol=1e-6)


def test_runs_report_the_activity_of_each_layer_and_name_their_test_set(tmp_path):
    fields = {"data.num_train": 16, "data.num_test": 8, "model.name": "mlp", "sweep.seed": (0,)}
    fields |= {"model.widths": (6, 5), "network.epochs": 1, "network.batch_size": 8}
    _, points = maker(SETTINGS, fields)()
    data = EXPERIMENT.load(points, None)
    (outcome,) = EXPERIMENT.run(points, data, tmp_path, lambda fraction: None)
    columns = [name for name in outcome.metrics if name.startswith("test_active")]
    assert columns == ["test_active_1", "test_active_2"] and len(outcome.history) == 2
    assert outcome.metrics["num_test"] == 8 and outcome.outcomes.test
    assert 0 < outcome.metrics["test_active_1"] < 1
    assert outcome.outcomes.values.mean() == pytest.approx(outcome.metrics["test_accuracy"])
