"""Measures along training: their marks, examples and values."""

import functools

import jax
import numpy as np
import optax
import pytest
from flax import linen as nn

from lsa_jax import models
from lsa_jax.errors import InputError
from lsa_jax.models.scaled import network_params
from lsa_jax.reporting.courses import NAMES
from lsa_jax.training import LOSSES, Evaluation, Measuring, measures, train
from lsa_jax.training import course as courses
from lsa_jax.training.programs import init_key

MODEL = models.mlp(widths=(8,), num_classes=3)
ALL = tuple(NAMES)


@pytest.fixture
def run(data):
    return functools.partial(
        train,
        model=MODEL,
        data=data,
        loss=LOSSES["softmax_cross_entropy"],
        optimizer=optax.sgd(0.5),
        epochs=5,
        batch_size=8,
    )


def measured(names=ALL, examples=12):
    return Evaluation(every=5, measuring=Measuring(names, examples))


def test_measures_along_a_run_are_those_of_its_parameters_there(key, data, run):
    params, history = run(key, evaluation=measured())
    assert [row["epoch"] for row in history.rows] == [0, 1, 2, 4, 5]
    assert history.rows[3]["step"] == 4 * 5 and "train_loss" not in history.rows[3]
    few = courses.subsample(37, 12)
    start = MODEL.init(init_key(key), (5,))
    given = (MODEL.apply, start, params, data.inputs[few], data.targets[few])
    names = tuple(measures.MEASURES)
    for name, value in measures.measure(names, *given).items():
        assert history.rows[-1][name] == pytest.approx(value, rel=1e-4, abs=1e-6)
    sharp = measures.sharpness(*given[:1], params, *given[3:], LOSSES["softmax_cross_entropy"])
    assert history.rows[-1]["sharpness"] == pytest.approx(sharp, rel=1e-3)
    assert history.rows[0]["kernel_distance"] == pytest.approx(0, abs=1e-6)
    assert history.rows[0]["weight_movement/Dense_0"] == 0
    # Two epochs are the beginning of five, as the rate is constant.
    before, _ = run(key, epochs=2)
    after, _ = run(key, epochs=4)
    x = data.inputs[few]
    distance = float(measures.kernel_distance(MODEL.apply, before, after, x))
    assert history.rows[3]["kernel_velocity"] == pytest.approx(distance / 2, rel=1e-3)
    assert np.isnan(history.rows[0]["kernel_velocity"])
    assert history.measured.examples == 12 and history.measured.share > 0


def test_the_sharpness_is_that_of_the_trained_function(key, data, run):
    model = models.scaled(MODEL, 0.25)
    own = functools.partial(network_params, output_scale=0.25)
    measuring = Measuring(("sharpness",), 12, MODEL.apply, network=own)
    params, history = run(key, model=model, evaluation=Evaluation(every=5, measuring=measuring))
    few = courses.subsample(37, 12)
    given = data.inputs[few], data.targets[few], LOSSES["softmax_cross_entropy"]
    expected = measures.sharpness(model.apply, params, *given)
    assert history.rows[-1]["sharpness"] == pytest.approx(expected, rel=1e-3)
    of_network = measures.sharpness(MODEL.apply, own(params), *given)
    assert abs(of_network - expected) > 0.05 * expected
    starts = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
    with pytest.raises(InputError, match="the loss is not known"):
        courses.course_of(measuring, model.apply, starts, lambda *at: data, 37, [0, 5], 100)


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.BatchNorm(use_running_average=not train, momentum=0.5)(nn.Dense(6)(x))
        return nn.Dense(3)(nn.relu(x))


def test_state_is_no_layer_and_start_and_now_have_that_of_now(key, data, run):
    model = models.from_flax_linen(Normalised())
    names = ("weight_movement", "kernel_distance", "linearization_gap")
    now, history = run(key, model=model, evaluation=measured(names))
    moved = {name.split("/", 1)[1] for name in history.rows[-1] if name.startswith("weight")}
    layers = {f"params/{layer}" for layer in ("Dense_0", "BatchNorm_0", "Dense_1")}
    assert moved == layers
    start = model.init(init_key(key), (5,)) | {"batch_stats": now["batch_stats"]}
    x = data.inputs[courses.subsample(37, 12)]
    for name in names[1:]:
        expected = getattr(measures, name)(model.apply, start, now, x)
        assert history.rows[-1][name] == pytest.approx(float(expected), rel=1e-3), name


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        (range(1), [0]),
        (range(6), [0, 1, 2, 4, 5]),
        (range(41), [0, 1, 2, 4, 8, 16, 32, 40]),
        ([0, 100, 200, 300, 400, 450], [0, 100, 200, 300, 450]),
    ],
)
def test_measures_are_taken_at_the_start_the_end_and_powers_of_two(marks, expected):
    assert courses.log_spaced(marks) == expected
    assert courses.log_spaced(marks, None) == sorted({expected[0], expected[-1]})
    assert set(courses.log_spaced(marks, 4)) <= set(expected)


@pytest.fixture
def course():
    starts = {"w": np.array([[3.0, 4.0], [0.0, 1.0]], np.float32)}
    found = courses.course_of_weights(Measuring(("weight_movement",)), starts, [0, 2, 5, 7])
    for mark in (0, 2, 5, 7):
        now = {"w": starts["w"] + np.array([[0.0, mark], [mark / 2, 0.0]], np.float32)}
        found.take(mark, now)
    return found


def test_a_course_is_read_by_mark_by_replica_and_by_step(course):
    assert course.marks == [0, 2, 5, 7]
    name, expected = "weight_movement/w", {m: (m / 5, m / 2) for m in course.marks}
    for mark, (first, second) in expected.items():
        np.testing.assert_allclose(course.row(mark)[name], [first, second], rtol=1e-6)
        assert course.row_of(1, mark) == {name: pytest.approx(second)}
    assert course.row(3) == {} and course.row_of(0, 3) == {}
    rows = course.rows_of(0, "epoch")
    assert [(row["epoch"], row[name]) for row in rows] == [
        (mark, pytest.approx(first)) for mark, (first, _) in expected.items()
    ]
    table = course.table([7, 3, 2])[name]
    np.testing.assert_allclose(table, [expected[7], [np.nan] * 2, expected[2]], rtol=1e-6)
