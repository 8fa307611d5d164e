"""The training loop against plain optax steps, and its promises about replicas and resuming."""

import functools
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_stacks import stacks

from lsa_jax import parallel
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.models import network
from lsa_jax.models.model import Model
from lsa_jax.parallel import BatchLayout, ReplicaLayout
from lsa_jax.training import (
    LOSSES,
    Checkpoints,
    Evaluation,
    Measuring,
    Source,
    make_optimizer,
    softmax_cross_entropy,
    train,
)
from lsa_jax.training.programs import _ORDER, init_key

CROSS_ENTROPY = LOSSES["softmax_cross_entropy"]


def _init(key, input_shape):
    first, second = jax.random.split(key)
    return {
        "hidden": jax.random.normal(first, (*input_shape, 8)) / 2,
        "readout": jax.random.normal(second, (8, 3)) / 2,
    }


def _apply(params, inputs):
    return jax.nn.relu(inputs @ params["hidden"]) @ params["readout"]


MODEL, SGD = Model(_init, _apply, None), optax.sgd(0.1)


@pytest.fixture
def run(data):
    return functools.partial(
        train,
        model=MODEL,
        data=data,
        loss=CROSS_ENTROPY,
        epochs=3,
        batch_size=8,
        evaluation=Evaluation(data),
    )


def _same_bits(first, second):
    return all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    )


def test_training_equals_a_plain_loop_over_ragged_batches(key, data, run):
    params, history = run(key, optimizer=optax.adam(0.01))

    expected = _init(init_key(key), (5,))
    rule = optax.adam(0.01)
    opt_state = rule.init(expected)
    for epoch in range(3):
        order_key = jax.random.fold_in(jax.random.fold_in(key, _ORDER), epoch)
        order = np.asarray(jax.random.permutation(order_key, 37))
        losses = []
        for start in range(0, 37, 8):  # the last batch has 5 examples
            rows = order[start : start + 8]

            def mean_loss(params, rows=rows):
                return jnp.mean(
                    CROSS_ENTROPY(_apply(params, data.inputs[rows]), data.targets[rows])
                )

            loss, gradient = jax.value_and_grad(mean_loss)(expected)
            updates, opt_state = rule.update(gradient, opt_state, expected)
            expected = optax.apply_updates(expected, updates)
            losses.append(float(loss))
        assert history.rows[epoch]["batch_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    for name in expected:
        np.testing.assert_allclose(params[name], expected[name], rtol=1e-4, atol=1e-6)
    outputs = _apply(expected, data.inputs)
    accuracy = jnp.mean(jnp.argmax(outputs, axis=-1) == jnp.argmax(data.targets, axis=-1))
    assert history.rows[-1]["test_accuracy"] == pytest.approx(float(accuracy))
    assert history.rows[-1]["step"] == 15


def test_each_replica_equals_the_run_alone(key, run):
    keys, rates = jax.random.split(key, 5), jnp.linspace(0.01, 0.2, 5)
    together, history = run(keys, optimizer=optax.sgd, replicas=rates)
    for replica in (0, 3):
        alone, own = run(keys[replica], optimizer=optax.sgd, replicas=rates[replica])
        for name in alone:
            np.testing.assert_allclose(together[name][replica], alone[name], rtol=1e-5, atol=1e-7)
        assert history.rows[-1]["test_loss"][replica] == pytest.approx(own.rows[-1]["test_loss"])


def test_replicas_give_the_same_bits_on_any_number_of_devices(key, run):
    keys = jax.random.split(key, 5)
    layout = ReplicaLayout(5, jax.devices()[:3])
    params, _ = run(keys, optimizer=SGD, layout=layout)
    expected, _ = run(keys, optimizer=SGD)
    assert _same_bits(params, expected)


def test_data_parallel_training_equals_one_device(key, run):
    layout = BatchLayout(8, jax.devices()[:8])
    params, history = run(key, optimizer=optax.adam(0.01), layout=layout)
    expected, whole = run(key, optimizer=optax.adam(0.01))
    for name in expected:
        np.testing.assert_allclose(params[name], expected[name], rtol=1e-4, atol=1e-6)
    assert history.rows[-1]["test_accuracy"] == pytest.approx(whole.rows[-1]["test_accuracy"])


def _with(rate, slope, momentum=0.9):
    """Returns arguments of `train` whose functions are new objects in each call."""
    slopes = jnp.array([[slope, 1.0, 1.0]])  # a constant of the program
    return {
        "model": Model(_init, lambda params, x: slopes * _apply(params, x), None),
        "optimizer": lambda replica: optax.sgd(rate * replica, momentum=momentum),
        "replicas": jnp.array([1.0, 2.0]),
    }


def test_equal_programs_are_compiled_once_and_others_are_not_taken_for_them(
    key, data, run, tmp_path, monkeypatch
):
    """A run that keeps checkpoints takes the programs of an equal one before it; others take those
    of the same functions."""
    mapped, keys, same = [], jax.random.split(key, 2), _with(0.1, 1.0)
    map_devices = parallel.map_devices
    monkeypatch.setattr(
        parallel,
        "map_devices",
        lambda *given, **own: mapped.append(1) or map_devices(*given, **own),
    )
    others = data._replace(inputs=data.inputs[::-1])
    few = Dataset(*(part[:2] for part in data))
    variants = [
        ({}, {}),
        ({"data": others}, {}),
        ({}, {"slope": 1.5}),
        ({}, {"momentum": 0.5}),
        ({"loss": LOSSES["class_mean_cross_entropy"]}, {}),
        ({"evaluation": Evaluation(data, {"none": lambda f, y: 0 * y[:, 0]})}, {}),
        # The batches of the test set are equal, those of the training set are not.
        *(({"evaluation": Evaluation(few, batch_size=size)}, {}) for size in (4, 3)),
    ]
    made, plain = [], []
    for place, (own, functions) in enumerate(variants):
        before, own = len(mapped), {"epochs": 1} | own
        given = _with(**{"rate": 0.1, "slope": 1.0} | functions) | own
        found = run(keys, **given, checkpoints=Checkpoints(tmp_path / f"{place}"))
        made.append(len(mapped) - before)
        if not functions:
            expected = run(keys, **same | own)
            plain.append(len(mapped) - before - made[-1])
            assert _same_bits((found[0], found[1].rows), (expected[0], expected[1].rows))
    for counts in (made, plain):
        assert counts[0] > 0 and counts[1] == 0 and all(counts[2:])


def test_a_run_may_be_measured_before_its_first_epoch(key, data, run, tmp_path):
    keys, settings = jax.random.split(key, 2), {"optimizer": SGD}
    plain, history = run(keys, **settings)
    settings["evaluation"] = Evaluation(data, start=True)
    params, watched = run(keys, **settings, checkpoints=Checkpoints(tmp_path))
    assert _same_bits(params, plain) and _same_bits(watched.rows[1:], history.rows)
    first = watched.rows[0]
    assert (first["epoch"], first["step"], "batch_loss" in first) == (0, 0, False)
    for replica, own in enumerate(keys):
        outputs = _apply(_init(init_key(own), (5,)), data.inputs)
        expected = CROSS_ENTROPY(outputs, data.targets).mean()
        np.testing.assert_allclose(first["test_loss"][replica], expected, rtol=1e-5)
    # The row is in the checkpoint of a run that was stopped.
    again, resumed = run(keys, **settings, checkpoints=Checkpoints(tmp_path))
    assert _same_bits(resumed.rows, watched.rows)


class _Killed(Exception):
    pass


@settings(max_examples=2, deadline=None, derandomize=True)
@given(stacks(), st.integers(1, 4), st.integers(1, 3), st.sampled_from([optax.adam, optax.sgd]))
def test_a_killed_run_of_any_layers_resumes_with_the_same_bits(stack, killed_after, every, rule):
    """Parameters, evaluations and measures."""

    def die(fraction):
        if fraction >= killed_after / 5:
            raise _Killed

    layers, shape = stack
    inputs = jnp.asarray(np.random.default_rng(0).normal(size=(13, *shape)), jnp.float32)
    examples = Dataset(inputs, jnp.eye(2)[jnp.arange(13) % 2])
    measured = Measuring(("kernel_distance", "weight_movement"), 6)
    run = functools.partial(
        train,
        *(jax.random.split(jax.random.key(1), 2), network(layers), examples),
        *(LOSSES["softmax_cross_entropy"], rule(0.01)),
        epochs=5,
        batch_size=4,
        evaluation=Evaluation(examples, every=2, measuring=measured),
    )
    expected, whole = run()
    with tempfile.TemporaryDirectory() as folder:
        kept = Checkpoints(Path(folder), every)
        with pytest.raises(_Killed):
            run(checkpoints=kept, progress=die)
        params, history = run(checkpoints=kept)
        again, _ = run(checkpoints=kept)
    assert _same_bits((params, history.rows), (expected, whole.rows))
    assert _same_bits(again, expected)


def test_a_checkpoint_resumes_on_another_number_of_devices(key, run, tmp_path):
    def die(fraction):
        raise _Killed

    keys, settings = jax.random.split(key, 4), {"optimizer": SGD, "epochs": 2}
    with pytest.raises(_Killed):
        run(keys, **settings, checkpoints=Checkpoints(tmp_path), progress=die)
    layout = ReplicaLayout(4, jax.devices()[:1])
    resumed, _ = run(keys, **settings, checkpoints=Checkpoints(tmp_path), layout=layout)
    assert _same_bits(resumed, run(keys, **settings)[0])


def test_a_diverging_replica_stops_alone_and_says_at_which_step(key, run):
    keys, rates = jax.random.split(key, 3), jnp.array([0.1, 1e30, 0.1])
    params, history = run(keys, optimizer=optax.sgd, replicas=rates)
    assert list(history.failures) == [1]
    # Its first step is as long as its rate, and the loss after it is of no number.
    assert history.failures[1].startswith("the loss was not finite at step 1;")
    expected, _ = run(keys[2], optimizer=optax.sgd, replicas=rates[2])
    np.testing.assert_allclose(params["hidden"][2], expected["hidden"], rtol=1e-5, atol=1e-7)


def test_outputs_that_are_infinite_at_the_start_are_no_matter_of_the_rate(key, data):
    def apply(params, x):
        return jnp.stack([x @ params["w"], jnp.full(len(x), -jnp.inf)], axis=1)

    model = Model(lambda key, shape: {"w": jnp.ones(shape)}, apply, None)
    rows = Dataset(data.inputs, np.ones(len(data.inputs), int))
    with pytest.raises(NumericalError, match="at step 0; check the network's outputs"):
        train(key, model, rows, softmax_cross_entropy, SGD, epochs=1, batch_size=8)


def test_a_batch_beyond_all_examples_is_all_examples(key, run):
    """Not one filled up to its size, which would cost as much as that many examples."""
    whole, beyond = (run(key, optimizer=SGD, batch_size=size) for size in (64, 10**8))
    assert _same_bits(whole[0], beyond[0])


def test_frozen_parameters_stay_where_they_were_initialised(key, run):
    params, _ = run(
        key, optimizer=make_optimizer("momentum", 0.1, weight_decay=0.1), frozen=("hidden",)
    )
    initial = _init(init_key(key), (5,))
    np.testing.assert_array_equal(params["hidden"], initial["hidden"])
    assert not np.allclose(params["readout"], initial["readout"])


def test_a_source_sees_replica_and_epoch(key, data):
    """Targets are replaced by a function of (replica, epoch); evaluation sees the last epoch."""

    def fetch(arrays, replica, index, epoch):
        flipped = jnp.where(epoch == replica, 1.0, 0.0)
        return Dataset(arrays.inputs[index], jnp.full((len(index), 1), flipped))

    def mean_target(outputs, targets):
        return targets[:, 0] + 0 * outputs[:, 0]

    _, history = train(
        jax.random.split(key, 3),
        MODEL,
        Source(data, 37, fetch),
        lambda outputs, targets: jnp.sum(outputs, axis=-1) * 0 + targets[:, 0],
        SGD,
        epochs=3,
        batch_size=10,
        evaluation=Evaluation(metrics={"target": mean_target}),
        replicas=jnp.arange(3),
    )
    seen = np.stack([row["train_target"] for row in history.rows])
    np.testing.assert_array_equal(seen, np.eye(3))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("frozen", [("hiden",), ("hidden", "x"), "hidden"])
def test_frozen_entries_that_do_not_exist_are_refused(key, run, frozen):
    with pytest.raises(InputError, match="frozen is .*of params: hidden, readout"):
        run(key, optimizer=SGD, frozen=frozen)


@pytest.mark.usefixtures("unchecked")
def test_settings_of_another_kind_or_size_are_refused(key, data, run, tmp_path):
    keys, plain = jax.random.split(key, 2), {"optimizer": SGD}
    for change, words in (
        (
            {"key": keys, "layout": BatchLayout(8, jax.devices()[:2])},
            "layout is of 1 replicas, for",
        ),
        ({"key": keys, "layout": ReplicaLayout(3)}, "layout is of 3 replicas, for 2 keys"),
        (
            {"layout": BatchLayout(8, jax.devices()[:2]), "batch_size": 7},
            "accepted: multiples of 2",
        ),
        ({"layout": 2}, "layout is a int"),
        ({"model": (_init, _apply)}, "model is a tuple; accepted: models.Model, as models.from_"),
        ({"model": MODEL._replace(apply=lambda *given: (_apply(*given), 0))}, "returns a tuple"),
        ({"evaluation": Evaluation(measuring=("sharpness",))}, "measuring is a tuple; accepted"),
        (
            {"evaluation": Evaluation(measuring=Measuring(("kernel_distance",), examples=-3))},
            "measuring.examples is -3; accepted",
        ),
        ({"evaluation": data}, "evaluation is a Dataset; accepted: Evaluation"),
        ({"evaluation": Evaluation(metrics=[CROSS_ENTROPY])}, "evaluation.metrics is a list"),
        ({"checkpoints": tmp_path}, "checkpoints is a PosixPath; accepted: Checkpoints"),
    ):
        with pytest.raises(InputError, match=words):
            run(**{"key": key} | plain | change)


@pytest.mark.usefixtures("unchecked")
def test_whole_numbers_among_parameters_are_frozen_or_refused(key, run):
    counted = Model(lambda *given: _init(*given) | {"count": jnp.int32(3)}, _apply, None)
    with pytest.raises(InputError, match=r"\['count'\] of type int32; .* in frozen"):
        run(key, model=counted, optimizer=SGD)
    params, _ = run(key, model=counted, optimizer=SGD, frozen=("count",))
    assert params["count"] == 3


def test_training_within_other_transformations_is_refused(key, run):
    with pytest.raises(InputError, match="key is traced, .* keys .replicas. in place of jax.vmap"):
        jax.vmap(lambda one: run(one, optimizer=SGD)[0])(jax.random.split(key, 2))


def test_factors_on_rates_go_with_frozen_entries(key, run):
    factors = {"hidden": 0.5, "readout": 1.0}
    rule = make_optimizer("adam", 0.01, rate_factors=factors)
    params, _ = run(key, optimizer=rule, frozen=("readout",))
    halved, _ = run(key, optimizer=make_optimizer("adam", 0.005), frozen=("readout",))
    np.testing.assert_allclose(params["hidden"], halved["hidden"], rtol=1e-5)


@pytest.mark.parametrize(
    ("fetch", "words"),
    [
        (lambda arrays, *given: 1 / 0, "raises ZeroDivisionError"),
        (lambda arrays, replica, index: arrays, "raises TypeError"),
        (lambda arrays, replica, index, epoch: (arrays.inputs[index],) * 2, "returns .*Dataset"),
        (
            lambda arrays, *given: Dataset(arrays.inputs[:2], arrays.targets[:2]),
            "returns .* of n examples",
        ),
    ],
)
def test_sources_that_give_no_batch_are_refused(key, data, run, fetch, words):
    with pytest.raises(InputError, match=f"^fetch of a source {words}"):
        run(key, optimizer=SGD, data=Source(data, len(data.inputs), fetch))


def test_a_metric_may_be_undefined(key, data, run):
    ratio = {"ratio": lambda outputs, targets: jnp.full(len(outputs), jnp.nan)}
    _, history = run(key, optimizer=SGD, evaluation=Evaluation(data, metrics=ratio))
    assert not history.failures and np.isnan(history.rows[-1]["test_ratio"])


def test_a_run_without_a_test_set_is_not_taken_for_one_with_its_training_set(
    key, data, tmp_path, run
):
    """Their evaluations are one program."""
    for place, test in enumerate((None, data, None)):
        kept = Checkpoints(tmp_path / str(place))
        evaluation = Evaluation(test, batch_size=29)
        _, history = run(key, optimizer=SGD, checkpoints=kept, evaluation=evaluation)
        assert ("test_loss" in history.rows[-1]) == (test is not None)
        assert test is None or np.isfinite(history.rows[-1]["test_loss"])
