"""What a point of growing trains: rates, decay, losses by hand, batches, memory."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special

from lsa_jax import backend
from lsa_jax.experiments.growing import tasks
from lsa_jax.experiments.growing.objectives import FIRST_SENTINEL, TokenBatch, make_objective
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.experiments.growing.text import Text
from lsa_jax.experiments.growing.transformer import Transformer
from lsa_jax.sweep.points import Point
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
    """Random windows, and held-out ones that say in all tokens which they are."""
    train = np.random.default_rng(0).integers(FIRST_SENTINEL, VOCABULARY, (17, LENGTH))
    validation = np.tile(np.arange(10)[:, None] + FIRST_SENTINEL, (1, LENGTH))
    return Text(train.astype(np.uint16), validation.astype(np.uint16), (17,), VOCABULARY)


def test_a_cosine_rises_to_its_peak_and_falls_to_a_share_of_it():
    rates = {"learning_rate": 0.01, "peak_factor": 5.0, "end_factor": 0.2, "warmup_steps": 10}
    fields = {f"optimizer__{name}": value for name, value in rates.items()}
    config = configure(optimizer__schedule="cosine", base_steps=60, grow_steps=50, **fields)
    schedule = tasks.make_schedule(config)
    for step in (0, 4, 10, 35, 60, 110):
        along = (step - 10) / 100  # of the way from the rise to the end
        falling = 0.01 + 0.04 * (1 + np.cos(np.pi * along)) / 2
        expected = 0.05 * step / 10 if step <= 10 else falling
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_weights_decay_and_scales_and_biases_do_not(clip):
    config = configure(
        optimizer__learning_rate=0.1, optimizer__weight_decay=0.3, optimizer__clip=clip
    )
    params = {"layers": {"w": 2.0, "norm1_scale": 2.0, "up_bias": 2.0}, "tokens": 2.0}
    params = jax.tree.map(jnp.float32, params)
    rule = tasks.make_optimizer(config)
    updates, _ = rule.update(jax.tree.map(jnp.zeros_like, params), rule.init(params), params)
    after = optax.apply_updates(params, updates)
    assert float(after["layers"]["w"]) == float(after["tokens"]) == pytest.approx(2 * 0.97)
    assert float(after["layers"]["norm1_scale"]) == float(after["layers"]["up_bias"]) == 2


def test_gradients_are_clipped_together_by_their_norm():
    config = configure(optimizer__learning_rate=0.1, optimizer__clip=1e-9)
    rule = tasks.make_optimizer(config)
    params = {"a": jnp.float32(0.0), "b": jnp.float32(0.0)}
    gradient = {"a": jnp.float32(3.0), "b": jnp.float32(-4.0)}
    updates, _ = rule.update(gradient, rule.init(params), params)
    # Adam's first step is rate g / (|g| + 1e-8), here of 6e-10 and of 8e-10.
    expected = [-0.1 * 6e-10 / (6e-10 + 1e-8), 0.1 * 8e-10 / (8e-10 + 1e-8)]
    np.testing.assert_allclose([updates["a"], updates["b"]], expected, rtol=1e-4)


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
    total, count = tasks.make_loss(model, remat)({"table": jnp.float32(table)}, batch)
    seen = np.take_along_axis(tokens, positions, axis=1)
    logs = scipy.special.log_softmax(table, axis=1)[seen, targets]
    assert float(total) == pytest.approx(-(weights * logs).sum(), rel=1e-5)
    assert float(count) == weights.sum() > 0


def test_validation_windows_are_spread_from_the_first_to_the_last(text):
    config = configure(data__validation_windows=4)

    def objective(key, windows):
        zeros = jnp.zeros(len(windows), int)
        return TokenBatch(windows, zeros, windows, windows, jnp.ones(windows.shape))

    found = tasks._validation(config, text, objective)
    assert found.tokens.shape == (2, 2, LENGTH) and found.prefix.shape == (2, 2)
    windows = found.tokens[..., 0] - FIRST_SENTINEL
    assert windows.tolist() == [[0, 3], [6, 9]]  # of 10


@pytest.fixture(scope="module")
def task(text):
    return tasks.make_task(configure(seed=3), text)


def test_batches_are_functions_of_the_seed_and_the_step_alone(task, text):
    alone = [task.problem.batches(step, 1) for step in (4, 5)]
    together = task.problem.batches(4, 2)
    for place, own in enumerate(alone):
        for one, many in zip(own, together, strict=True):
            np.testing.assert_array_equal(one[0], many[place])
    assert (together.tokens[0] != together.tokens[1]).any()
    other = tasks.make_task(configure(seed=4), text).problem.batches(4, 2)
    assert (other.tokens != together.tokens).any()
    # Where nothing is asked for, the windows of an epoch are the text's.
    hidden = np.asarray(task.problem.batches(0, 8).tokens).reshape(16, LENGTH)
    asked = task.problem.batches(0, 8)
    kept = np.ones(hidden.shape, bool)
    np.put_along_axis(kept, np.asarray(asked.positions).reshape(16, -1), False, axis=1)
    found = [np.flatnonzero(((hidden[i] == text.train) | ~kept[i]).all(axis=1)) for i in range(16)]
    assert len({int(rows[0]) for rows in found}) == 16 and all(len(rows) == 1 for rows in found)


@pytest.mark.parametrize(("layout", "expected"), [("replicas", (3, None)), ("batch", (3, 2))])
def test_a_batch_is_dealt_out_only_where_the_layout_says_so(text, layout, expected):
    placed = tasks.make_task(configure(layout=layout, max_replicas=3), text).placement
    assert placed == expected


def test_networks_of_more_layers_are_drawn_anew_and_those_of_a_seed_alike(task):
    first, again = (tasks.first_state(task, 2).params["layers"] for _ in range(2))
    fresh, deeper = (tasks.fresh_params(task, count)["layers"] for count in (2, 3))
    name = "up"
    np.testing.assert_array_equal(first[name], again[name])
    assert fresh[name].shape[0] == 2 and deeper[name].shape[0] == 3
    assert (first[name] != fresh[name]).any() and (fresh[name] != deeper[name][:2]).any()


def test_each_kind_of_network_reads_its_own_text_once(monkeypatch, text):
    read = []

    def load(sources, data_dir, **options):
        read.append(options)
        return text._replace(vocabulary_size=len(read))

    monkeypatch.setattr(tasks.texts, "load", load)
    kinds = ("encoder", "decoder", "encoder")
    points = [Point("", {}, configure(model__kind=kind)) for kind in kinds]
    found = tasks._texts(points, None)
    assert {kind: own.vocabulary_size for kind, own in found.items()} == {
        "encoder": 1,
        "decoder": 2,
    }
    assert [options["vocabulary"] for options in read] == ["wordpiece", "bytes"]
    # Masked tokens need no sentinels, UL2's spans of 8 tokens one.
    assert [options["num_sentinels"] for options in read] == [0, 1]
    assert all(options["vocabulary_size"] == VOCABULARY for options in read)


def _bytes(count, **fields):
    config = configure(**fields)
    objective = make_objective("masked", LENGTH, VOCABULARY)
    with backend.built_for("gpu", memory=1e9, count=count):
        return tasks.training_bytes(config, VOCABULARY, objective, False)


def test_a_device_holds_its_share_of_the_networks_or_of_the_batch():
    alone = _bytes(1, max_replicas=1)
    assert [_bytes(n, max_replicas=3) for n in (1, 2)] == [3 * alone, 2 * alone]
    # Without a limit all operators: one place and size of blocks, two sources.
    assert _bytes(1) == 2 * alone
    three = _bytes(1, max_replicas=1, batch_size=3)
    assert _bytes(2, layout="batch", batch_size=6) == three > alone


def test_training_holds_weights_gradients_and_two_moments_beside_what_gradients_keep():
    config = configure(max_replicas=1)
    model = tasks._model(config, VOCABULARY, False)
    params = jax.eval_shape(lambda key: model.init(key, 2), jax.random.key(0))
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    objective = make_objective("masked", LENGTH, VOCABULARY)
    windows = jax.ShapeDtypeStruct((2, LENGTH), jnp.int32)
    batch = jax.eval_shape(objective, jax.random.key(0), windows)
    loss = tasks.make_loss(model, False)
    kept = backend.bytes_for_gradient(lambda p, b: loss(p, b)[0], params, batch)
    # float32, and two counters of steps: of Adam, and of the schedule.
    assert _bytes(1, max_replicas=1) == 4 * (4 * size + 2) + kept
