"""Masks of dropout, refused losses and targets, and steps of optax's optimisers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax import models, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.models.model import Model
from lsa_jax.parallel import BatchLayout, ReplicaLayout
from lsa_jax.training import LOSSES, Evaluation, programs, steps, train
from lsa_jax.training.programs import Recipe, draw_key, epoch_order, init_key

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


N, D, C = 64, 128, 256


def _recipe(apply):
    model = Model(lambda key, shape: {}, apply, None)
    layout = ReplicaLayout(2)
    return Recipe(model, LOSSES["squared_error"], None, {}, N, N, (), layout)


PARAMS = {"weight": jax.ShapeDtypeStruct((D, C), jnp.float32)}
BATCH = Dataset(*(jax.ShapeDtypeStruct((N, size), jnp.float32) for size in (D, C)))


def test_operations_of_a_linear_map_are_two_products():
    flops = programs.gradient_flops(_recipe(lambda p, x: x @ p["weight"]), PARAMS, BATCH)
    # One product forward, one for the gradient of the weight, each 2 N D C; the rest is N C.
    assert flops == pytest.approx(4 * N * D * C, rel=0.02)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3)).astype(np.float32)
Y = X @ RNG.normal(size=(3, 1)).astype(np.float32)
LABELS = X.argmax(axis=1)


def linear(outputs):
    return models.Model(
        lambda key, shape: {"w": jnp.linspace(-1, 1, 3 * outputs).reshape(3, outputs)},
        lambda params, x: x @ params["w"],
        None,
    )


def run(targets, loss, outputs=1, optimizer=None, **settings):
    settings = {"epochs": 1, "batch_size": 12} | settings
    optimizer = optimizer or optax.sgd(0.1)
    return train(
        jax.random.key(0), linear(outputs), Dataset(X, targets), loss, optimizer, **settings
    )


def each_with_each(outputs, targets):
    return jnp.mean(jnp.square(outputs - targets.reshape(1, -1)), axis=1)


def own(outputs, targets):
    return jnp.sum(jnp.square(outputs - targets.reshape(outputs.shape)), axis=1)


WRONG = {
    "each output with each target": each_with_each,
    "one mean": lambda outputs, targets: jnp.mean(own(outputs, targets)),
    "a column": lambda outputs, targets: own(outputs, targets)[:, None],
    "the batch in it": lambda outputs, targets: (
        own(outputs, targets) - own(outputs, targets).mean()
    ),
    "a pair": lambda outputs, targets: (own(outputs, targets), 1),
    "shapes that do not fit": lambda outputs, targets: own(outputs, targets) @ jnp.ones(7),
}


@pytest.mark.parametrize("targets", [Y, Y[:, 0]], ids=["[n, 1]", "[n]"])
@pytest.mark.parametrize("name", WRONG)
def test_a_loss_or_metric_of_ones_own_gives_each_example_its_number(name, targets):
    with pytest.raises(InputError, match="loss"):
        run(targets, WRONG[name])
    with pytest.raises(InputError, match="metrics"):
        run(targets, own, evaluation=Evaluation(metrics={"mine": WRONG[name]}))
    if name == "one mean":  # once for each kind of targets
        _, history = run(targets, own, evaluation=Evaluation(metrics={"mine": own}))
        assert history.rows[-1]["train_mine"] == history.rows[-1]["train_loss"]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", training.LOSSES)
def test_targets_that_fit_no_output_are_refused_before_training(name):
    loss = training.LOSSES[name]
    for targets in (LABELS[:, None], LABELS.astype(float), Y[:, 0], np.eye(5)[LABELS]):
        with pytest.raises(InputError, match="targets"):
            run(targets, loss, outputs=4)
    with pytest.raises(InputError, match="targets"):
        run(np.arange(12), loss, outputs=4)
    with pytest.raises(InputError, match=r"evaluation\.test"):
        good = (np.sign(Y), 1) if name in ("logistic", "hinge") else (np.eye(4)[LABELS], 4)
        run(good[0], loss, outputs=good[1], evaluation=Evaluation(Dataset(X, Y[:, :1] + 0.5)))


OPTIMIZERS = {
    "lbfgs": optax.lbfgs,
    "plateau": lambda: optax.chain(
        optax.sgd(0.1), optax.contrib.reduce_on_plateau(0.5, patience=1, rtol=0.9)
    ),
}
STEPS = 3


def by_optax(optimizer, loss, params):
    """Returns the parameters after optax's own loop."""
    optimizer = optax.with_extra_args_support(optimizer)
    state = optimizer.init(params)
    for _ in range(STEPS):
        value, slope = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(
            slope, state, params, value=value, grad=slope, value_fn=loss
        )
        params = optax.apply_updates(params, updates)
    return params


def mean_loss(params):
    return training.squared_error(X @ params["w"], Y).mean()


def by_epochs(optimizer, layout):
    return run(Y, training.squared_error, 1, optimizer, epochs=STEPS, layout=layout)[0]


def by_steps(optimizer, layout):
    problem = steps.Problem(
        lambda params, batch: (
            training.squared_error(batch[0] @ params["w"], batch[1]).sum(),
            len(batch[0]),
        ),
        optimizer,
        lambda first, count: jax.tree.map(lambda a: np.stack([a] * count), (X, Y)),
        (X[None], Y[None]),
    )
    params = linear(1).init(None, (3,))
    state = steps.NetworkState(params, optimizer.init(params))
    many = jax.tree.map(lambda a: np.asarray(a)[None], state)
    given = {"start": 0, "stop": STEPS, "measured": np.array([STEPS]), "segment": 2}
    return steps.train_steps(problem, many, layout, **given).states.params


@pytest.mark.parametrize(
    ("name", "loop", "parts"),
    [("lbfgs", by_epochs, 1), ("plateau", by_epochs, 2), ("lbfgs", by_steps, 2)],
)
def test_a_step_of_an_optimiser_is_that_of_optax(name, loop, parts):
    layout = ReplicaLayout(1) if parts == 1 else BatchLayout(12, jax.devices()[:2])
    found = loop(OPTIMIZERS[name](), layout)
    expected = by_optax(OPTIMIZERS[name](), mean_loss, linear(1).init(None, (3,)))
    np.testing.assert_allclose(np.ravel(found["w"]), np.ravel(expected["w"]), 1e-3, 1e-5)
