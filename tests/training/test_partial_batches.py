"""Examples that only fill up a partial batch count nowhere, in statistics of the batch either."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax import models
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lsa.noise_curves.learners import linearized_model
from lsa_jax.models.layers.normalization import normalise_batch
from lsa_jax.parallel import BATCH_AXIS, BatchLayout
from lsa_jax.training import Evaluation, softmax_cross_entropy, train

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(5, 4, 4, 2)).astype(np.float32)
FIVE = Dataset(IMAGES, np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1]])


def network(axis=None):
    norm = models.BatchNorm(axis)
    layers = [models.Conv(4, (3, 3)), norm, models.Relu(), models.Flatten(), models.Dense(6), norm]
    return models.network([*layers, models.Relu(), models.Dense(3)])


def run(model, batch_size, data=FIVE, optimizer=None, **settings):
    settings = {"evaluation": Evaluation(data, batch_size=batch_size)} | settings
    return train(
        jax.random.key(1), model, data, softmax_cross_entropy, optimizer or optax.sgd(0.1),
        epochs=2, batch_size=batch_size, **settings,
    )  # fmt: skip


def alike(first, second):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 2e-4, 2e-5), first, second)


MODELS = {
    "scaled": lambda: models.scaled(network(), 2.0),
    "linearized": lambda: linearized_model(network()),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_8_with_5_examples_is_a_batch_of_5(name):
    model, frozen = MODELS[name](), () if name != "linearized" else ("initial",)
    found, expected = (run(model, size, frozen=frozen) for size in (8, 5))
    alike(found[0], expected[0])
    alike(found[1].rows, expected[1].rows)


def test_so_it_is_where_devices_share_the_batch():
    # Of 8 places on 4 devices the last one has fillers alone, and the third one of them.
    layout = BatchLayout(8, jax.devices()[:4])
    found = run(network(BATCH_AXIS), 8, layout=layout)
    expected = run(network(), 5)
    alike(found[0], expected[0])
    alike(found[1].rows, expected[1].rows)


def test_fillers_have_no_derivative_and_get_the_statistics_of_the_others():
    counted = jnp.array([1.0, 1, 1, 0, 0])
    scale, shift = jnp.array([0.5, 2.0]), jnp.array([1.0, -1.0])
    x = jnp.asarray(RNG.normal(size=(5, 3, 2)), jnp.float32)

    def of_all(x):
        return normalise_batch(x, scale, shift, 0.1, None, counted)

    def of_three(x):
        return normalise_batch(x, scale, shift, 0.1)

    alike(of_all(x)[:3], of_three(x[:3]))
    mean, deviation = (f(x[:3], axis=(0, 1)) for f in (jnp.mean, jnp.std))
    scales = scale / jnp.sqrt(deviation**2 + 0.1)
    expected = (x[3:] - mean[None, None]) * scales[None, None] + shift[None, None]
    alike(of_all(x)[3:], expected)
    slope = jax.grad(lambda x: jnp.sum(jnp.sin(of_all(x))[:3]))(x)
    alike(slope[:3], jax.grad(lambda x: jnp.sum(jnp.sin(of_three(x))))(x[:3]))
    assert not slope[3:].any()
