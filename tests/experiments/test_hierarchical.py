"""Hierarchical targets: kernels against closed forms, claims, a sweep from end to end."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments._hierarchical_kernels import full_ntk
from lsa_jax.experiments._hierarchical_report import (
    beta_claims,
    early_claims,
    epoch_claims,
    make_report,
    net_claims,
    sample_claims,
    width_claims,
)
from lsa_jax.experiments._hierarchical_signals import readout_error, share_missed
from lsa_jax.experiments.sweep import run_sweep
from lsa_jax.models.shallow import shallow
from lsa_jax.settings import hierarchical as settings
from lsa_jax.settings.points import make_points
from lsa_jax.settings.variants import set_fields

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


def make(**fields):
    named = {name.replace("__", "."): value for name, value in fields.items()}
    config = set_fields(settings.default_config(), TINY | named)
    return config, make_points(config, settings.sweep(config), settings.validate)


def test_a_sweep_watches_networks_and_kernels_and_ends_with_a_report(tmp_path):
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


def test_what_is_missed_is_none_of_the_signal_itself_and_all_of_another(key):
    signal = jnp.array([[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    other = signal[:, :1] * signal[:, 1:] * jnp.ones((1, 2))
    assert float(share_missed(signal + 3 * other, signal)) == pytest.approx(0)
    assert float(share_missed(other, signal)) == pytest.approx(1)
    assert float(share_missed(0.5 * signal, signal)) == pytest.approx(1 / 4)
    features = jnp.concatenate([signal @ jnp.array([[1.0, 2.0], [0.0, 1.0]]), other], axis=1)
    assert float(readout_error(features, signal, features, signal)) < 1e-6


def row(net, learner, error, **settings):
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "alpha": 0.3, "beta": 1.0}
    return {**task, "net": net, "learner": learner, "test_error": error, "width": 200, **settings}


def statuses(claims):
    return [claim.status for claim in claims]


def test_claims_follow_the_medians():
    config, _ = make(
        d=30,
        sweep__series=(("3resnet", "all"), ("3layer_bottleneck", "all")),
        sweep__baselines=(("3layer", "all"), ("2layer", "ntk")),
        sweep__beta=(1.0, 0.3, 0.2),
    )
    errors = (0.1, 0.2, 5.0)
    resnet = [row("3resnet", "all", error, seed=s) for s, error in enumerate(errors)]
    rows = pd.DataFrame([*resnet, row("3layer", "all", 1.3), row("3layer_bottleneck", "all", 0.1)])
    assert statuses(width_claims(config, rows)) == ["shown", "not shown", "not shown", "not run"]
    assert statuses(net_claims(config, rows)) == ["shown", "not shown", "not shown", "not run"]
    by_beta = pd.DataFrame([row("3resnet", "all", 2.0, beta=beta) for beta in (1.0, 0.2)])
    assert statuses(beta_claims(config, by_beta)) == ["not shown", "shown"]


def test_the_best_epoch_is_claimed_beside_the_last_one_and_not_of_kernels_that_have_none():
    config, _ = make(
        d=30, sweep__series=(("3resnet", "all"),), sweep__limits=(("2layer", "ntk_infinite"),)
    )
    rows = pd.DataFrame([row("3resnet", "all", 0.4, least_error=0.2)])
    assert statuses(width_claims(config, rows)) == ["not shown", "not run"]
    (early,) = early_claims(config, rows)
    assert early.status == "shown" and early.ours == 0.2 and early.item.endswith("best epoch")


def test_the_best_epoch_is_that_of_any_candidate(tmp_path):
    config, _ = make(question="width")
    (tmp_path / "runs" / "a").mkdir(parents=True)
    errors = [(2, 0.4), (4, 0.5), (2, 0.1), (4, 0.9)]  # of two candidates
    lines = [json.dumps({"epoch": epoch, "test_error": error}) for epoch, error in errors]
    (tmp_path / "runs" / "a" / "metrics.jsonl").write_text("\n".join(lines))
    results = pd.DataFrame([row("3resnet", "all", 0.5, id="a", status="ok", seed=0)])
    tables = make_report(config, results, tmp_path).tables
    assert [table["200"].tolist() for _, table in tables[:2]] == [["0.5"], ["0.1"]]


def test_sample_and_epoch_claims_compare_networks_with_kernels():
    sizes = (100, 10_000)
    task = {"d": 16, "composite_degree": 2}
    rows = [row("3resnet", "all", 0.1, num_train=n, **task) for n in sizes]
    rows += [
        row("none", "gaussian", e, num_train=n, **task) for n, e in ((100, 1.0), (10_000, 0.1))
    ]
    found = sample_claims(pd.DataFrame(rows))
    assert statuses(found) == ["shown", "shown"] and found[1].ours == "100"
    config, _ = make(question="epochs", sweep__series=(("3resnet", "all"), ("2layer", "ntk")))
    seen = {"base_epoch": 8, "composite_epoch": None, "composite_error": 1.0}
    watched = pd.DataFrame([row("3resnet", "all", 1.0, **seen), row("2layer", "ntk", 9.0, **seen)])
    assert statuses(epoch_claims(config, watched)) == ["not shown", "shown"]


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
