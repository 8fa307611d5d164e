"""Masks of dropout are drawn in training only, for each step and device."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax import models
from lsa_jax.parallel import BatchLayout, ReplicaLayout
from lsa_jax.training import LOSSES, Evaluation, train
from lsa_jax.training.programs import draw_key, epoch_order, init_key

LOSS = LOSSES["softmax_cross_entropy"]
NETWORK = models.network([models.Dense(16), models.Relu(), models.Dropout(0.5), models.Dense(3)])


@pytest.mark.parametrize("parts", [1, 2])
def test_each_step_of_training_has_masks_of_its_own_and_evaluation_has_none(key, data, parts):
    layout = BatchLayout(8, jax.devices()[:2]) if parts == 2 else ReplicaLayout(1)
    params, history = train(
        key,
        NETWORK,
        data,
        LOSS,
        optax.sgd(0.3),
        epochs=1,
        batch_size=8,
        layout=layout,
        evaluation=Evaluation(data),
    )

    expected = NETWORK.init(init_key(key), (5,))
    order = np.asarray(epoch_order(key, 0, 37))
    padded = np.append(order, order[:3]).reshape(5, 8)  # three examples of weight 0
    for step, rows in enumerate(padded):
        count = 8 if step < 4 else 5

        def mean_loss(params, rows=rows, step=step, count=count):
            losses = [
                LOSS(
                    NETWORK.apply(params, data.inputs[part], draw_key(key, step, first)),
                    data.targets[part],
                )
                for first, part in zip(range(0, 8, 8 // parts), np.split(rows, parts), strict=True)
            ]
            return jnp.concatenate(losses)[:count].sum() / count

        gradient = jax.grad(mean_loss)(expected)
        expected = jax.tree.map(lambda p, g: p - 0.3 * g, expected, gradient)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), params, expected)
    plain = LOSS(NETWORK.apply(expected, data.inputs), data.targets).mean()
    for split in ("train", "test"):
        assert history.rows[-1][f"{split}_loss"] == pytest.approx(float(plain), rel=1e-4)


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_order_of_examples_is_not_drawn_from_what_the_network_is(key, epoch):
    own = jax.random.fold_in(init_key(key), epoch)
    assert np.any(epoch_order(key, epoch, 37) != jax.random.permutation(own, 37))
