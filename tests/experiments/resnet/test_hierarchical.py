"""Hierarchical targets: kernels against closed forms, claims, a sweep from end to end."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.errors import InputError
from lsa_jax.experiments.resnet.hierarchical import experiment, settings
from lsa_jax.experiments.resnet.hierarchical.kernels import (
    arc_cosine_kernel,
    full_ntk,
    gaussian_kernel,
)
from lsa_jax.experiments.resnet.hierarchical.report import make_report
from lsa_jax.experiments.resnet.hierarchical.signals import readout_error, share_missed
from lsa_jax.experiments.resnet.shallow import shallow
from lsa_jax.experiments.resnet.signals import paper_parities
from lsa_jax.sweep.run import run_sweep
from lsa_jax.sweep.variants import set_fields

TINY = {
    "d": 8,
    "num_train": 40,
    "num_test": 30,
    "num_probe": 40,
    "batch_size": 20,
    "epochs": 4,
    "fall_epoch": 2,
    "eval_every": 2,
    "watch_every": 2,
    "sweep.width": (6,),
    "sweep.seed": (0,),
}


make = maker(settings, TINY)


def test_a_sweep_watches_networks_and_kernels_and_ends_with_a_report(tmp_path, monkeypatch):
    watch, searched = experiment._watched, []

    def watch_what_was_searched(config, task, outcome):
        searched.append((config.learner, outcome.metrics["test_error"]))
        return watch(config, task, outcome)

    monkeypatch.setattr(experiment, "_watched", watch_what_was_searched)
    config, points = make(
        question="epochs", sweep__series=(("2layer", "hidden"), ("2layer", "ntk"))
    )
    results = run_sweep(config, points, tmp_path / "out", data_dir=None, command=["test"])
    assert (results["status"] == "ok").all() and len(results) == 2
    # What the watched run ends with is what the search had found.
    curves = pd.read_csv(tmp_path / "out" / "curves.csv")
    last = curves[curves["epoch"] == 4]["test_error"]
    assert curves["epoch"].unique().tolist() == [0, 2, 4]
    np.testing.assert_allclose(last, results["test_error"], rtol=1e-5)
    found = [dict(searched)[learner] for learner in results["learner"]]
    np.testing.assert_allclose(last, found, rtol=1e-5)
    errors = curves.groupby("series")["first_layer_error"].nunique()
    assert errors.to_dict() == {"2layer(hidden)": 3, "2layer(ntk)": 1}  # a kernel's stay
    assert (tmp_path / "out" / "hierarchical.png").stat().st_size > 0


def test_the_full_kernel_s_rows_are_pairs_of_example_and_output(key):
    model = shallow("3resnet", 5, 2)
    params = model.init(key, (4,))
    x = jax.random.normal(key, (3, 4))
    jacobian = jax.jacobian(lambda p: model.apply(p, x).reshape(-1))(params)
    flat = jnp.concatenate([leaf.reshape(6, -1) for leaf in jax.tree.leaves(jacobian)], axis=1)
    np.testing.assert_allclose(full_ntk(model.apply, params, x, x), flat @ flat.T, rtol=1e-4)


def test_kernels_of_inputs_are_their_formulas(key):
    """Each pair by itself in float64: exp(-|x - x'|^2 / (2 s^2 d)), and Cho and Saul's order 1."""
    x1, x2 = (
        np.array(2 * jax.random.normal(k, (n, 5)))
        for k, n in zip((key, jax.random.fold_in(key, 1)), (4, 3), strict=True)
    )
    squares = np.square(np.float64(x1)[:, None] - np.float64(x2)[None]).sum(axis=2)
    for bandwidth in (0.5, 3.0):
        found = gaussian_kernel(bandwidth)(jnp.asarray(x1), jnp.asarray(x2))
        np.testing.assert_allclose(found, np.exp(-squares / (2 * bandwidth**2 * 5)), rtol=1e-3)
    lengths = np.linalg.norm(x1, axis=1)[:, None] * np.linalg.norm(x2, axis=1)
    angles = np.arccos(x1 @ x2.T / lengths)
    expected = lengths * (np.sin(angles) + (np.pi - angles) * np.cos(angles)) / (2 * np.pi)
    np.testing.assert_allclose(
        arc_cosine_kernel(jnp.asarray(x1), jnp.asarray(x2)), expected, rtol=1e-4
    )


def test_what_is_missed_is_none_of_the_signal_itself_and_all_of_another(key):
    signal = jnp.array([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    other = signal[:, :1] * signal[:, 1:] * jnp.ones((1, 2))
    assert float(share_missed(signal + 3 * other, signal)) == pytest.approx(0)
    assert float(share_missed(other, signal)) == pytest.approx(1)
    assert float(share_missed(0.5 * signal, signal)) == pytest.approx(1 / 4)
    features = jnp.concatenate([signal @ jnp.array([[1.0, 2.0], [0.0, 1.0]]), other], axis=1)
    assert float(readout_error(features, signal, features, signal)) < 1e-6


def row(net, learner, error, **settings):
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15, "num_train": 500}
    task |= {"alpha": 0.3, "beta": 1.0, "seed": 0}
    return {**task, "net": net, "learner": learner, "test_error": error, "width": 200, **settings}


def test_the_best_epoch_is_that_of_any_candidate(tmp_path):
    config, _ = make(question="width")
    (tmp_path / "runs" / "a").mkdir(parents=True)
    errors = [(2, 0.4), (4, 0.5), (2, 0.1), (4, 0.9)]  # of two candidates
    lines = [json.dumps({"epoch": epoch, "test_error": error}) for epoch, error in errors]
    (tmp_path / "runs" / "a" / "metrics.jsonl").write_text("\n".join(lines))
    results = pd.DataFrame([row("3resnet", "all", 0.5, id="a", status="ok", seed=0)])
    tables = make_report(config, results, tmp_path).tables
    assert [table["200"].tolist() for _, table in tables[:2]] == [["0.5"], ["0.1"]]


def test_fewer_outputs_are_the_first_and_no_more_than_there_are(key):
    x = jax.random.rademacher(key, (5, 8), jnp.float32)
    hierarchy = paper_parities(8, 1, 3, 0.3, k=3)
    np.testing.assert_array_equal(hierarchy.base(x), x[:, :3])
    product = np.prod(x[:, :3], axis=1)
    np.testing.assert_array_equal(
        hierarchy.composite(x[:, :3]), np.stack([-product, product, -product], axis=1)
    )
    with pytest.raises(InputError, match="config.outputs is 5; accepted: at most 4"):
        settings.validate(set_fields(settings.default_config(), TINY | {"outputs": 5}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learner": "gaussian"}, "config.net is '3resnet' while config.learner is 'gaussian'"),
        ({"net": "3layer_bottleneck", "learner": "ntk_infinite"}, "accepted: one of 2layer"),
        ({"composite_degree": 5}, "config.composite_degree is 5; accepted: at most the 4"),
        ({"search.rung_epochs": (2,)}, "config.search.rung_keep is"),
        ({"learner": "ntk_exact", "num_train": 9000}, "accepted: at most 5000"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        settings.validate(set_fields(settings.default_config(), TINY | fields))
