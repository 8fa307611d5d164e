"""A point's training: rates, decay, losses by hand, batches, memory."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special

from lsa_jax import backend, costs
from lsa_jax.errors import InputError
from lsa_jax.experiments.growing import tasks
from lsa_jax.experiments.growing.objectives import FIRST_SENTINEL, TokenBatch, make_objective
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.experiments.growing.text import Text
from lsa_jax.experiments.growing.transformer import Transformer
from lsa_jax.sweep.variants import set_fields

LENGTH, VOCABULARY = 8, 40
SMALL = {
    "data.length": LENGTH,
    "data.vocabulary_size": VOCABULARY,
    "data.validation_windows": 4,
    "model.width": 8,
    "model.heads": 2,
    "model.hidden": 8,
    "batch_size": 2,
    "layers": 1,
    "added": 1,
    "sweep.index": (0,),
    "sweep.block_size": (1,),
}


def configure(**fields):
    named = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(SETTINGS.default_config(), SMALL | named)


@pytest.fixture(scope="module")
def text():
    """Random windows, and held-out windows whose tokens are all their own number."""
    train = np.random.default_rng(0).integers(FIRST_SENTINEL, VOCABULARY, (17, LENGTH))
    validation = np.tile(np.arange(10)[:, None] + FIRST_SENTINEL, (1, LENGTH))
    return Text(train.astype(np.uint16), validation.astype(np.uint16), (17,), VOCABULARY)


@pytest.mark.parametrize(
    ("schedule", "warmup"), [("cosine", 10), ("constant", 0), ("constant", 10)]
)
def test_rates_rise_and_stay_or_fall_to_a_share_of_their_peak(schedule, warmup):
    rates = {"learning_rate": 0.01, "peak_factor": 5.0, "end_factor": 0.2}
    rates |= {"schedule": schedule, "warmup_steps": warmup}
    fields = {f"optimizer__{name}": value for name, value in rates.items()}
    rate = tasks.make_schedule(configure(base_steps=60, grow_steps=50, **fields))
    for step in (0, 4, 10, 35, 60, 110):
        falling = 0.01 + 0.04 * (1 + np.cos(np.pi * (step - 10) / 100)) / 2
        top, after = (0.05, falling) if schedule == "cosine" else (0.01, 0.01)
        expected = top * step / warmup if step < warmup else after
        assert float(rate(step)) == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_weights_decay_and_scales_and_biases_do_not(clip):
    fields = {"optimizer__weight_decay": 0.3, "optimizer__clip": clip}
    params = {"layers": {"w": 2.0, "norm1_scale": 2.0, "up_bias": 2.0}, "tokens": 2.0}
    params = jax.tree.map(jnp.float32, params)
    rule = tasks.make_optimizer(configure(optimizer__learning_rate=0.1, **fields))
    updates, _ = rule.update(jax.tree.map(jnp.zeros_like, params), rule.init(params), params)
    after = optax.apply_updates(params, updates)
    assert float(after["layers"]["w"]) == float(after["tokens"]) == pytest.approx(2 * 0.97)
    assert float(after["layers"]["norm1_scale"]) == float(after["layers"]["up_bias"]) == 2


@pytest.mark.parametrize("remat", [False, True])
def test_the_loss_is_the_sum_of_weighted_cross_entropies_and_their_number(remat):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(VOCABULARY, VOCABULARY))

    def read(params, tokens, prefix, positions):
        return jnp.take_along_axis(tokens, positions, axis=1)

    model = Transformer(lambda *sizes: {}, read, lambda params, x: params["table"][x])
    tokens, targets = rng.integers(0, VOCABULARY, (2, 3, LENGTH))
    positions = np.stack([rng.permutation(LENGTH) for _ in range(3)])
    weights = rng.integers(0, 2, (3, LENGTH)).astype(np.float32)
    given = (tokens, np.zeros(3, int), positions, targets, weights)
    batch = TokenBatch(*map(jnp.asarray, given))
    loss, params = tasks.make_loss(model, remat), {"table": jnp.float32(table)}
    (total, count), gradient = jax.value_and_grad(loss, has_aux=True)(params, batch)
    seen = np.take_along_axis(tokens, positions, axis=1)
    logs = scipy.special.log_softmax(table, axis=1)
    assert float(total) == pytest.approx(-(weights * logs[seen, targets]).sum(), rel=1e-5)
    assert float(count) == weights.sum() > 0
    expected = np.zeros_like(table)
    errors = np.exp(logs[seen]) - np.eye(VOCABULARY)[targets]
    np.add.at(expected, seen, weights[:, :, None] * errors)
    np.testing.assert_allclose(gradient["table"], expected, atol=1e-5)


def test_validation_windows_are_spread_from_the_first_to_the_last_and_none_comes_twice(text):
    def objective(key, windows):
        zeros = jnp.zeros(len(windows), int)
        return TokenBatch(windows, zeros, windows, windows, jnp.ones(windows.shape))

    found = tasks._validation(configure(data__validation_windows=4), text, objective)
    assert found.tokens.shape == (2, 2, LENGTH) and found.prefix.shape == (2, 2)
    windows = found.tokens[..., 0] - FIRST_SENTINEL
    assert windows.tolist() == [[0, 3], [6, 9]]  # of 10
    with pytest.raises(InputError):
        tasks._validation(configure(data__validation_windows=12), text, objective)


@pytest.fixture(scope="module")
def task(text):
    return tasks.make_task(configure(seed=3), text)


def test_batches_are_functions_of_the_seed_and_the_step_alone(task, text):
    together = task.problem.batches(4, 2)
    for place, step in enumerate((4, 5)):
        for one, many in zip(task.problem.batches(step, 1), together, strict=True):
            np.testing.assert_array_equal(one[0], many[place])
    assert (together.tokens[0] != together.tokens[1]).any()
    other = tasks.make_task(configure(seed=4), text).problem.batches(4, 2)
    assert (other.tokens != together.tokens).any()
    # Where nothing is hidden, the windows of an epoch are the text's.
    asked = task.problem.batches(0, 8)
    seen = np.asarray(asked.tokens).reshape(16, LENGTH)
    kept = np.ones(seen.shape, bool)
    np.put_along_axis(kept, np.asarray(asked.positions).reshape(16, -1), False, axis=1)
    found = [np.flatnonzero(((seen[i] == text.train) | ~kept[i]).all(axis=1)) for i in range(16)]
    assert len({int(rows[0]) for rows in found}) == 16 and all(len(rows) == 1 for rows in found)


def test_networks_of_a_seed_are_drawn_alike_and_deeper_ones_independently(task):
    first, again = (tasks.first_state(task, 2).params["layers"]["up"] for _ in range(2))
    fresh, deeper = (tasks.fresh_params(task, count)["layers"]["up"] for count in (2, 3))
    np.testing.assert_array_equal(first, again)
    assert fresh.shape[0] == 2 and deeper.shape[0] == 3
    assert (first != fresh).any() and (fresh != deeper[:2]).any()


def _bytes(count, **fields):
    objective = make_objective("masked", LENGTH, VOCABULARY)
    with backend.built_for("gpu", memory=1e9, count=count):
        return tasks.training_bytes(configure(**fields), VOCABULARY, objective, False)


def test_a_device_holds_its_share_of_the_networks_or_of_the_batch():
    alone = _bytes(1, max_replicas=1)
    assert [_bytes(n, max_replicas=3) for n in (1, 2)] == [3 * alone, 2 * alone]
    # Without a limit all operators: one place and size of blocks, two sources.
    assert _bytes(1) == 2 * alone
    three = _bytes(1, max_replicas=1, batch_size=3)
    assert _bytes(2, layout="batch", batch_size=6) == three > alone


def test_training_holds_weights_gradients_two_moments_and_the_values_for_gradients():
    model = tasks._model(configure(), VOCABULARY, False)
    params = jax.eval_shape(lambda key: model.init(key, 2), jax.random.key(0))
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    windows = jax.ShapeDtypeStruct((2, LENGTH), jnp.int32)
    objective = make_objective("masked", LENGTH, VOCABULARY)
    batch = jax.eval_shape(objective, jax.random.key(0), windows)
    loss = tasks.make_loss(model, False)
    kept = costs.bytes_for_gradient(lambda p, b: loss(p, b)[0], params, batch)
    # float32, and two counters of steps: of Adam, and of the schedule.
    assert _bytes(1, max_replicas=1) == 4 * (4 * size + 2) + kept


@pytest.mark.parametrize(
    ("memory", "fields", "remat"),
    [
        (16e9, {}, True),  # of a TPU v5e
        (85e9, {}, False),  # of an H100
        (16e9, {"model.remat": False}, None),
        (16e9, {"batch_size": 8192}, None),
    ],
)
def test_layers_are_computed_twice_only_where_memory_needs_it(memory, fields, remat):
    """BERT-Base at full size, as in configs/growing/bert.py."""
    sizes = {"model.width": 768, "model.heads": 12, "model.hidden": 3072, "data.length": 512}
    whole = {"batch_size": 256, "layout": "batch", "layers": 12, "added": 4}
    whole |= {"model.dtype": "bfloat16"}
    config = set_fields(SETTINGS.default_config(), sizes | whole | fields)
    given = (config, 30_522, make_objective("masked", 512, 30_522))
    with backend.built_for("tpu", memory=memory, count=4):
        if remat is None:
            with pytest.raises(InputError, match="config.batch_size"):
                tasks.choose_remat(*given)
        else:
            assert tasks.choose_remat(*given) is remat
    assert tasks.choose_remat(*given) is False  # on CPUs
