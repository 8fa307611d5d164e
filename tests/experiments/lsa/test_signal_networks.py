import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.signal.networks import (
    ONE_FILTER,
    TWO_FILTERS,
    TwoFilters,
    draw_examples,
    make_sampler,
    signal_vector,
    spread_features,
    two_filters,
)
from lsa_jax.experiments.lsa.signal_dynamics import experiment, extensions_report, settings
from lsa_jax.experiments.lsa.sparse_signal import sample, sparse_signal
from lsa_jax.reporting.report import Report, Row
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

PLAIN = {"k": 12, "d": 4, "batch_size": 6, "sampler": "plain", "population": False}


def configure(**fields):
    config = set_fields(settings.default_config(), PLAIN | fields)
    settings.validate(config)
    return config


def to_float32(tree):
    return jax.tree.map(lambda array: jnp.asarray(array, jnp.float32), tree)


def test_two_filters_are_the_formula():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(5, 7, 3))
    w, b, a = generator.normal(size=(2, 3)), np.array([-0.4, 0.3]), np.array([1.5, 0.7])
    rising = np.maximum(inputs @ w[0] + b[0], 0).sum(axis=1)
    falling = np.maximum(-(inputs @ w[1]) + b[1], 0).sum(axis=1)
    found = two_filters(to_float32(TwoFilters(w, b, a)), to_float32(inputs))
    np.testing.assert_allclose(found[:, 0], a[0] * rising - a[1] * falling, rtol=1e-5)


def test_two_equal_filters_are_the_one_filter():
    generator = np.random.default_rng(1)
    inputs, w, b = to_float32((generator.normal(size=(5, 7, 3)), generator.normal(size=3), -0.3))
    both = TwoFilters(jnp.stack([w, w]), jnp.stack([b, b]), jnp.ones(2))
    one = ONE_FILTER.apply(TWO_FILTERS.summary(both), inputs)
    np.testing.assert_allclose(TWO_FILTERS.apply(both, inputs), one, rtol=1e-5, atol=1e-6)


def test_the_measures_of_two_filters_name_each():
    w, b, a = np.array([[1, 2], [3, 6]]), np.array([-1, -2]), np.array([5, 7])
    params = to_float32(TwoFilters(w, b, a))
    details = TWO_FILTERS.details(params, jnp.array([0.0, 1.0]))
    assert {name: float(value) for name, value in details.items()} == {
        "w1_dot_wstar": 2, "w2_dot_wstar": 6, "b1": -1, "b2": -2, "a1": 5, "a2": 7,
    }  # fmt: skip
    w, b = TWO_FILTERS.summary(params)
    assert (w.tolist(), float(b)) == ([2.0, 4.0], -1.5)


def test_the_signal_has_length_1_along_the_first_axis_or_spread_over_a_stretch():
    np.testing.assert_array_equal(signal_vector(configure(d=4)), [1, 0, 0, 0])
    np.testing.assert_allclose(
        signal_vector(configure(d=9, stride=2)), np.full(9, 1 / 3), rtol=1e-6
    )


@pytest.mark.parametrize("num_features", [1, 2, 5])
def test_features_are_orthonormal_and_add_up_to_the_first_basis_vector(num_features):
    features = spread_features(num_features, 5)
    np.testing.assert_allclose(features @ features.T, np.eye(num_features), atol=1e-12)
    total = features.sum(axis=0) / num_features**0.5
    np.testing.assert_allclose(total, np.eye(5)[0], atol=1e-12)


def test_with_several_features_the_label_is_the_sign_along_the_first_basis_vector(key):
    examples = draw_examples(configure(num_features=3, batch_size=50), key, jnp.float32(1e-6))
    signal_rows = examples.inputs.sum(axis=1)
    np.testing.assert_array_equal(np.sign(signal_rows[:, 0]), examples.targets)
    np.testing.assert_allclose(np.linalg.norm(signal_rows, axis=1), 1, rtol=1e-4)


@pytest.mark.parametrize("stride", [1, 3])
def test_an_unaligned_signal_is_one_stretch_of_the_vector_seen_through_windows(key, stride):
    config = configure(stride=stride, batch_size=40)
    examples = jax.tree.map(np.asarray, draw_examples(config, key, jnp.float32(0.0)))
    k, d = config.k, config.d
    assert examples.inputs.shape == (40, k * d // stride + 1, d)
    starts = []
    for windows, target in zip(examples.inputs, examples.targets, strict=True):
        vector = np.full((k + 1) * d, np.nan)
        for place, window in enumerate(windows):
            seen = vector[place * stride : place * stride + d]
            if place:  # they overlap, and agree where they do
                np.testing.assert_array_equal(seen[: d - stride], window[: d - stride])
            vector[place * stride : place * stride + d] = window
        (entries,) = np.nonzero(np.nan_to_num(vector))
        starts.append(entries[0])
        np.testing.assert_array_equal(entries, np.arange(entries[0], entries[-1] + 1))
        np.testing.assert_allclose(vector[entries], target * signal_vector(config)[: len(entries)])
        assert len(entries) == d or entries[-1] >= k * d  # what no window reaches
    assert len(set(np.mod(starts, d))) == d  # not aligned with rows


def test_windows_that_do_not_overlap_are_independent_noise_with_the_scale_asked_for(key):
    config = configure(stride=4, batch_size=400)
    inputs = np.asarray(draw_examples(config, key, jnp.float32(0.3)).inputs)
    noise = inputs[np.abs(inputs) != 0.5]  # entries of the signal are +-1/2
    assert noise.std() == pytest.approx(0.3, rel=0.05)


def test_the_plain_sampler_of_one_filter_is_that_of_signal_gradients(key):
    config = configure()
    params = ONE_FILTER.init(key, 0.5, config.d)
    _, gradient = make_sampler(config).gradient(key, params, jnp.float32(0.4))
    data = sample(key, config.batch_size, sparse_signal(config.k, config.d, 0.4))
    w = np.asarray(params.w, np.float64)
    # At b = 0 the network is linear, f(X) = sum_i <w, X_i>.
    total = np.asarray(data.inputs, np.float64).sum(axis=1)
    residual = -data.targets / (1 + np.exp(data.targets * (total @ w)))
    np.testing.assert_allclose(gradient.w, np.mean(residual[:, None] * total, axis=0), rtol=1e-4)


def test_runs_with_extensions_have_measures_of_their_own_beside_those_of_all_runs(tmp_path):
    config = configure(
        separate_filters=True, stride=2, steps=3, eval_every=2, num_test=6, checkpoint_every=1
    )
    set_fields(config, {"sweep.seed": (0,)})
    points = make_points(config, settings.sweep(config), settings.validate)
    (outcome,) = experiment.run(points, None, tmp_path, lambda fraction: None)
    assert outcome.status == "ok" and [row["step"] for row in outcome.history] == [0, 2, 3]
    first, last = outcome.history[0], outcome.history[-1]
    assert last["w_dot_wstar"] != first["w_dot_wstar"] and last["b"] != 0
    assert {"w1_dot_wstar", "w2_dot_wstar", "b1", "b2", "a1", "a2"} <= set(last)


def test_the_report_has_a_part_for_each_extension(monkeypatch, tmp_path):
    def fake(config, results, workdir):
        table = pd.DataFrame({"runs": [len(results)]})
        claim = Row("w.w* grows", "", 1.0, None, "shown")
        return Report("", [("Course", table)], [claim], {"f": len}, {"t": table}, ["note"])

    monkeypatch.setattr(extensions_report.report, "make_report", fake)
    nan = np.nan
    results = pd.DataFrame(
        {
            "seed": [0, 1, 0, 0, 0, 0],
            "num_features": [5, 5, 3, nan, nan, nan],
            "stride": [nan, nan, nan, 2, nan, 2],
            "separate_filters": [nan, nan, nan, nan, True, False],
        }
    )
    report = extensions_report.make_report(configure(), results, tmp_path)
    names = ["5 features", "3 features", "stride 2", "separate filters", "one filter, stride 2"]
    assert [(heading, table["runs"][0]) for heading, table in report.tables] == [
        (f"Course: {name}", 2 if name == names[0] else 1) for name in names
    ]
    assert [c.item for c in report.claims] == [f"{name}: w.w* grows" for name in names]
    endings = [name.replace(", ", "_").replace(" ", "_") for name in names]
    assert list(report.figures) == [f"f_{ending}" for ending in endings]
    assert list(report.extra_tables) == [f"t_{ending}" for ending in endings]
    assert report.notes == ["note"] and report.title == configure().title
    single = extensions_report.make_report(configure(), results[["seed"]], tmp_path)
    assert [heading for heading, _ in single.tables] == ["Course"]
