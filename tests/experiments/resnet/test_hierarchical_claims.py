"""Claims, tables and figures on hierarchical targets, from made-up errors."""

import json

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.resnet.hierarchical.claims import CLAIMS, most_samples
from lsa_jax.experiments.resnet.hierarchical.report import error_table, make_report, runs_of
from lsa_jax.experiments.resnet.hierarchical.settings import SETTINGS
from lsa_jax.reporting.claims import decide_all
from lsa_jax.sweep.variants import set_fields

SEEDS = (0, 1, 2)
OTHERS = {"sweep.baselines": (("3layer", "all"),), "sweep.baseline_seed": SEEDS}
UNMET = "condition not met"


def configure(question="width", **fields):
    axes = {"sweep.series": (("3resnet", "all"),), "sweep.seed": SEEDS, "num_train": 500}
    # So many test examples that an error is as good as exact: within 0.03 %.
    axes |= {"question": question, "num_test": 10**8}
    return set_fields(SETTINGS.default_config(), axes | fields)


def row(net, learner, error, seed=0, **changes):
    """Returns a result; seeds differ by 0.01 %."""
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15, "num_train": 500}
    task |= {"alpha": 0.3, "beta": 1.0, "width": 200, "seed": seed, "status": "ok"}
    task |= {"net": net, "learner": learner, "test_error": error * (1 + seed / 1e4)}
    return task | changes


def decided(config, rows):
    """Returns the claims of a configuration's question by their items."""
    results = pd.DataFrame(rows).assign(id=np.arange(len(rows)).astype(str))
    claims = CLAIMS[config.question](config)
    found = {claim.item: claim for claim in decide_all(claims, runs_of(config, results))}
    assert len(found) == len(claims)
    return found


def one(found, words):
    """Returns the claim whose item has these words."""
    (claim,) = (claim for item, claim in found.items() if words in item)
    return claim


def figure2(resnet, other, **fields):
    """Returns the claims on a ResNet's errors by width and on another network's error."""
    rows = [row("3resnet", "all", e, s, width=m) for m, e in resnet.items() for s in SEEDS]
    rows += [row("3layer", "all", other, s, width=m) for m in resnet for s in SEEDS]
    rows = [found | {"least_error": found["test_error"]} for found in rows]
    return decided(configure(**{"sweep.width": tuple(resnet)}, **OTHERS, **fields), rows)


@pytest.mark.parametrize(
    ("resnet", "status"),
    [
        ({49: 9.0, 50: 0.674, 500: 0.1}, "shown"),
        ({50: 0.676, 500: 0.1}, "not shown"),
        ({50: 0.1, 500: 0.676}, "not shown"),
    ],
)
def test_the_resnet_learns_half_of_the_signal_at_every_width(resnet, status):
    """k alpha^2 / 2 is 15 * 0.09 / 2."""
    found = figure2(resnet, 2.0)
    assert one(found, "worst m from 50, best").status == status
    learned = found["error of 3resnet(all) at its worst m from 50"]
    assert learned.status == status and learned.primary


@pytest.mark.parametrize(
    ("other", "status"), [(1.34, "not shown"), (1.36, "shown"), (7.5, "shown"), (50.0, "shown")]
)
def test_others_do_not_learn_where_the_resnet_does(other, status):
    """However large the error is: 16.35 is that of the answer 0."""
    assert figure2({200: 0.1}, other)["error at the best m, 3layer(all)"].status == status
    unmet = figure2({200: 1.0}, other)["error at the best m, 3layer(all)"]
    assert unmet.status == UNMET and "ResNet" in unmet.condition


@pytest.mark.parametrize(
    ("above", "below", "statuses"),
    [
        (0.1, 2.0, ["measured", "shown", "shown"]),
        (0.1, 1.0, ["measured", "shown", "not shown"]),
        (1.0, 2.0, ["measured", "not shown", UNMET]),
    ],
)
def test_figure_3_claims_learning_above_alpha_and_none_below(above, below, statuses):
    by_beta = {1.0: above, 0.3: 1.0, 0.2: below}
    rows = [row("3resnet", "all", e, s, beta=b) for b, e in by_beta.items() for s in SEEDS]
    found = decided(configure("beta", **{"sweep.beta": tuple(by_beta)}), rows)
    assert [claim.status for claim in found.values()] == statuses


def test_a_skip_and_a_bottleneck_are_looked_at_each_by_itself():
    nets = {"3resnet": 0.1, "3resnet_full": 2.0, "3layer_bottleneck": 0.3}
    fields = {"sweep.series": tuple((net, "all") for net in nets)}
    rows = [row(net, "all", error, s) for net, error in nets.items() for s in SEEDS]
    found = decided(configure("nets", **fields), rows)
    assert [claim.status for claim in found.values()] == ["shown", "not shown", "measured"]


@pytest.mark.parametrize(("factor", "status"), [(0.99, "shown"), (1.01, "not shown")])
def test_theorem_1_bounds_the_error_at_every_alpha(factor, status):
    for worst in (0.15, 0.3, 0.6):
        shares = {a: factor if a == worst else 0.5 for a in (0.15, 0.3, 0.6)}
        rows = [
            row("3resnet", "all", share * a**4, s, alpha=a)
            for a, share in shares.items()
            for s in SEEDS
        ]
        bound = one(decided(configure("alpha", **{"sweep.alpha": tuple(shares)}), rows), "worst")
        assert (bound.status, bound.ours) == (status, pytest.approx(factor, rel=1e-3))


def test_exponents_are_between_neighbouring_alphas():
    rows = [
        row("3resnet", "all", 1.0, s, alpha=a, test_error=max(a, 0.3) ** (5 + s / 10))
        for a in (0.15, 0.3, 0.6)
        for s in SEEDS
    ]
    found = decided(configure("alpha", **{"sweep.alpha": (0.15, 0.3, 0.6)}), rows)
    assert one(found, "from 0.15").ours == pytest.approx(0, abs=1e-9)
    assert one(found, "from 0.3").ours == pytest.approx(5.1, abs=1e-3)


def epochs(seen, missed=1.0, of_resnet=0.1):
    """Returns the claims on (base, composite) epochs a seed, and on a kernel's share missed."""
    rows = [
        row("3resnet", "all", 0.1, s, base_epoch=b, composite_epoch=c, composite_error=of_resnet)
        for s, (b, c) in enumerate(seen)
    ]
    rows.append(row("3resnet", "ntk", 9.0, composite_error=missed))
    fields = {"sweep.baselines": (("3resnet", "ntk"),), "num_test": 10_000}
    found = decided(configure("epochs", **fields | {"sweep.seed": tuple(range(len(seen)))}), rows)
    return one(found, "epochs from"), one(found, "share")


def test_base_comes_first_where_the_interval_is_above_no_epochs():
    """Of two seeds an epoch apart 6.35, and in quadrature 1.96 of 4 / sqrt(6)."""
    half = np.hypot(12.706 / 2, 1.96 * 4 / np.sqrt(6))
    found, _ = epochs([(5, 45), (5, 46)])
    assert (found.low, found.high) == pytest.approx((40.5 - half, 40.5 + half), rel=1e-3)
    for seen, status in (
        ([(1, 9), (2, 10)], "shown"),
        ([(1, 3), (2, 5)], "undecided"),
        ([(35, 9), (36, 11)], "not shown"),
        ([(1, 9), (2, np.nan)], UNMET),
        ([(1, 9)], "undecided"),
    ):
        assert epochs(seen)[0].status == status


@pytest.mark.parametrize(
    ("missed", "status"),
    [(0.55, "shown of one seed"), (0.52, "undecided"), (0.48, "undecided"), (0.4, "not shown")],
)
def test_a_kernel_misses_half_of_the_signal(missed, status):
    """A share is known to 2 / sqrt(10,000), 0.04 on either side."""
    assert epochs([(1, 9), (2, 10)], missed)[1].status == status
    assert epochs([(1, 9), (2, 10)], missed, 0.6)[1].status == UNMET


LINEAR = {"d": 30, "base_degree": 1, "composite_degree": 8, "outputs": 8}


def samples(network, kernel, features=None, width=5852, **task):
    """Returns the claims on errors by N of the ResNet, a kernel and regression on features."""
    of = {("3resnet", "all"): network, ("none", "gaussian"): kernel}
    of |= {("2layer", "last_exact"): features} if features else {}
    widths = {"all": 200, "gaussian": np.nan, "last_exact": width}
    rows = [
        row(*key, error, s, num_train=n, width=widths[key[1]], **task)
        for key, by_n in of.items()
        for n, error in by_n.items()
        for s in SEEDS
    ]
    fields = {"sweep.limits": (("none", "gaussian"),), "sweep.baseline_seed": SEEDS}
    fields |= {"sweep.num_train": tuple(network), "sweep.limit_num_train": tuple(kernel)}
    if features:
        fields |= {"sweep.exact": (("2layer", "last_exact"),), "sweep.exact_width": (width,)}
        fields |= {"sweep.exact_num_train": tuple(features)}
    if task:
        fields["sweep.tasks"] = (tuple(task.values()),)
    return decided(configure("samples", **fields), rows)


@pytest.mark.parametrize(
    ("network", "kernel", "status", "ours"),
    [
        ({100: 1.0, 500: 0.67}, {100: 1.0, 500: 0.68, 999: 0.1}, "shown", "500 / 999"),
        ({100: 1.0, 500: 0.67}, {100: 1.0, 500: 0.67}, "not shown", "500 / 500"),
        ({100: 1.0, 500: 0.67}, {100: 0.1, 500: 9.0}, "not shown", "500 / 100"),
        ({100: 1.0, 500: 0.68}, {100: 1.0, 500: 1.0}, UNMET, "at no N / at no N"),
        ({100: 1.0, 500: 0.1}, {100: 1.0, 999: 1.0}, UNMET, "500 / at no N"),
    ],
)
def test_kernels_need_more_examples_than_the_resnet(network, kernel, status, ours):
    found = one(samples(network, kernel), "least N")
    assert found.status == status and found.ours.startswith(ours) and found.primary


@pytest.mark.parametrize(
    ("kernel", "features", "changes", "statuses"),
    [
        ({5852: 0.7}, {5852: 0.7}, {}, ["shown"] * 3),
        ({5851: 0.7}, {5852: 0.7}, {}, [UNMET, "shown", "shown"]),
        ({5852: 0.7}, {5851: 0.7}, {}, ["shown", UNMET, "shown"]),
        ({5852: 0.7}, {5852: 0.7}, {"width": 5851}, ["shown", UNMET, "shown"]),
        ({100: 0.001, 5852: 0.7}, {5852: 0.7}, {}, ["not shown", "shown", "shown"]),
        ({5852: 0.7}, {5852: 0.7}, {"network": 0.006}, [UNMET, UNMET, "not shown"]),
    ],
)
def test_theorems_2_and_3_hold_up_to_their_own_numbers(kernel, features, changes, statuses):
    """C(30, 8) / 1000 = 5,852 examples and features; the risk is 0.3^2 / 16 = 0.0056."""
    assert [most_samples(30, 8), most_samples(16, 4)] == [5852, 1]
    options = {"network": 0.005, "width": 5852} | changes
    claims = samples({5852: options["network"]}, kernel, features, options["width"], **LINEAR)
    learners = ("a kernel", "regression on features", "the ResNet")
    assert [one(claims, f"least error of {name}").status for name in learners] == statuses


def reported(workdir, rows, **fields):
    """Returns the report on rows, whose curves fall to their errors from ten times as much."""
    rows = [{"id": str(place), **own} for place, own in enumerate(rows)]
    for own in rows:
        (workdir / "runs" / own["id"]).mkdir(parents=True)
        lines = [
            {"epoch": epoch, "test_error": factor * own["test_error"]}
            for epoch, factor in ((0, 10), (1, 0.5), (2, 1))
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (workdir / "runs" / own["id"] / "metrics.jsonl").write_text(text)
    return make_report(configure(**fields), pd.DataFrame(rows), workdir)


def test_cells_are_medians_with_the_range_of_the_seeds_and_a_limit_stands_apart():
    errors = [("a", 50, 3.0), ("a", 50, 1.0), ("a", 50, 1.25), ("a", 1000, 0.5), ("b", np.nan, 2.0)]
    table = error_table(pd.DataFrame(errors, columns=["series", "width", "test_error"]), "width")
    assert list(table) == ["series", "50", "1000", "limit"]
    by_series = table.set_index("series")
    assert by_series.loc["a"].tolist()[:2] == ["1.25 (1 to 3)", "0.5"]
    assert by_series.loc["b", "limit"] == "2" and pd.isna(by_series.loc["a", "limit"])


def test_a_sweep_of_alpha_has_a_series_for_each_n_and_the_error_without_g(tmp_path):
    alphas, sizes = (0.15, 0.3, 0.6), (1000, 4000)
    rows = [
        row("3resnet", "all", size / 1e4 * alpha, alpha=alpha, num_train=size)
        for size in sizes
        for alpha in alphas
    ]
    fields = {"sweep.alpha": alphas, "sweep.num_train": sizes, "sweep.width": (200,)}
    report = reported(tmp_path, rows, question="alpha", **fields)
    table = report.tables[0][1].set_index("series")
    assert list(table) == ["0.15", "0.3", "0.6"]
    assert table.loc["3resnet(all), N = 4000"].tolist() == ["0.06", "0.12", "0.24"]
    (figure,) = (draw() for draw in report.figures.values())
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    np.testing.assert_allclose(lines["k alpha²"].get_ydata(), 15 * np.array(alphas) ** 2)
    np.testing.assert_allclose(lines["3resnet(all), N = 1000"].get_ydata(), np.array(alphas) / 10)


def test_widths_are_reported_at_the_last_and_the_best_epoch_without_failed_runs(tmp_path):
    rows = [row("3resnet", "all", e, width=w) for w, e in ((50, 0.5), (200, 0.25))]
    rows.append(row("3resnet", "all", 99.0, width=200, seed=1, status="failed"))
    report = reported(tmp_path, rows)
    (_, last), (_, best), (_, chosen) = report.tables
    assert last.iloc[0].tolist() == ["3resnet(all)", "0.5", "0.25"]
    assert best.iloc[0].tolist() == ["3resnet(all)", "0.25", "0.125"] and len(chosen) == 2
    assert report.extra_tables["curves"]["test_error"].tolist() == [5, 0.25, 0.5, 2.5, 0.125, 0.25]
