"""The report on noise curves: what it claims follows the numbers, and no further."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import settings
from lsa_jax.experiments.lsa.noise_curves.claims import (
    HeldOut,
    accuracies,
    examples_of,
    make_claims,
)
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.report import make_report
from lsa_jax.experiments.lsa.noise_curves.series import curves
from lsa_jax.sweep.variants import set_fields


def _results(network, ntk, seeds=3, noises=(0.0, 1.0), spread=0.01):
    rows = []
    for learner, levels in (("network", network), ("ntk_finite", ntk)):
        for noise, accuracy in zip(noises, levels, strict=True):
            for seed in range(seeds):
                jitter = spread * (seed - 1) if noise and seeds > 1 else 0.0
                rows.append(
                    {
                        "learner": learner,
                        "width_factor": 1,
                        "noise": noise,
                        "seed": seed,
                        "test_accuracy": accuracy + jitter + 1e-9 * seed,  # never equal
                        "status": "ok",
                    }
                )
    return pd.DataFrame(rows)


def _of_seeds(accuracies, order=1):
    """Returns results of (without noise, with noise) a seed; `order` is that of the NTK's rows."""
    rows = [
        {"learner": learner, "width_factor": 1, "noise": noise, "seed": seed, "status": "ok"}
        | {"test_accuracy": accuracy}
        for learner, of in accuracies.items()
        for seed, pair in [*enumerate(of)][:: order if learner == "ntk_finite" else 1]
        for noise, accuracy in zip((0.0, 1.0), pair, strict=True)
    ]
    return pd.DataFrame(rows)


def test_retained_percentage_is_relative_to_the_same_seed_without_noise():
    accuracies = {"network": [(0.8, 0.6), (0.5, 0.45), (0.9, 0.3)]}
    results = _of_seeds(accuracies).sample(frac=1, random_state=0)
    table = curves(results).sort_values("seed")
    noisy, quiet = table[table["noise"] == 1], table[table["noise"] == 0]
    np.testing.assert_allclose(noisy["start_accuracy"], [0.8, 0.5, 0.9])
    np.testing.assert_allclose(noisy["retained"], [75.0, 90.0, 100 / 3])
    np.testing.assert_allclose(quiet["retained"], 100.0)


def test_what_two_learners_retain_is_compared_seed_by_seed():
    """10 points in each seed, whose own values lie 40 points apart, in whatever order they come."""
    network = [(0.8, 0.8 * kept) for kept in (0.5, 0.7, 0.9)]
    ntk = [(0.6, 0.6 * kept) for kept in (0.4, 0.6, 0.8)]
    for order in (1, -1):
        results = _of_seeds({"network": network, "ntk_finite": ntk}, order)
        (claim,) = make_claims(curves(results), None, test=HeldOut(10_000_000, 10))
        assert claim.status == "shown" and claim.ours == pytest.approx(10, abs=0.01)
        assert claim.spread == pytest.approx(0, abs=1e-9)


def test_intervals_have_the_length_that_the_test_images_give_them():
    """With one seed they are 1.96 errors long on each side, in points, of what is compared."""
    n, (a, b), (c, d) = 2000, (0.8, 0.6), (0.7, 0.35)
    results = _of_seeds({"network": [(a, b)], "ntk_finite": [(c, d)]})

    def of_ratio(top, bottom):
        return 100 * top / bottom * ((1 - top) / top / n + (1 - bottom) / bottom / n) ** 0.5

    found = make_claims(curves(results), "lsa/table1/cifar2_gaussian", test=HeldOut(n, 2))
    gap, on_par = (next(c for c in found if word in c.item) for word in ("retained at", "at zero"))
    expected = 1.96 * np.hypot(of_ratio(b, a), of_ratio(d, c))
    assert (gap.high - gap.low) / 2 == pytest.approx(expected, rel=0.05)
    expected = 1.96 * 100 * (a * (1 - a) / n + c * (1 - c) / n) ** 0.5
    assert (on_par.high - on_par.low) / 2 == pytest.approx(expected, rel=0.02)
    assert on_par.ours == pytest.approx(100 * (a - c))


@pytest.mark.parametrize(
    ("network", "ntk", "status"),
    [((0.9, 0.85), (0.8, 0.4), "shown"), ((0.9, 0.4), (0.8, 0.4), "not shown")],
)
def test_the_claim_follows_the_numbers(network, ntk, status):
    (claim,) = make_claims(curves(_results(network, ntk)), None)
    gap = 100 * (network[1] / network[0] - ntk[1] / ntk[0])
    assert claim.ours == pytest.approx(gap, abs=0.01)
    assert claim.status == status and claim.spread is not None
    assert claim.low < claim.ours < claim.high


def test_a_difference_of_one_seed_is_decided_by_the_test_images():
    few, many = (
        make_claims(curves(_results((0.5, 0.4), (0.5, 0.38), seeds=1)), None, test=HeldOut(n, 10))
        for n in (500, 20_000)
    )
    assert (few[0].status, many[0].status) == ("undecided", "shown")
    assert few[0].note.startswith("it would take 2 seeds or more and ")


def test_a_percentage_retained_of_an_accuracy_near_chance_shows_nothing():
    results = _results((0.9, 0.9), (0.105, 0.105 * 0.6975), seeds=1)
    claims = make_claims(curves(results), "lsa/table1/cifar10_photographs", test=HeldOut(500, 10))
    gap, _, ntk = claims
    assert gap.status == ntk.status == "undecided"
    assert gap.note.startswith("near chance") and ntk.note.startswith("near chance")


def test_a_sweep_without_the_network_measures_accuracies_within_what_its_test_images_tell():
    results = _results((0.9,), (0.98,), noises=(0.0,), seeds=1)
    table = curves(results[results["learner"] != "network"])
    (claim,) = accuracies(table, HeldOut(10_000, 10))
    assert (claim.ours, claim.status) == (98.0, "measured")
    exact = scipy.stats.binomtest(9_800, 10_000).proportion_ci()
    np.testing.assert_allclose([claim.low, claim.high], [100 * end for end in exact], atol=0.03)


def test_the_test_is_as_its_runs_have_counted_it_or_by_its_settings():
    data = settings.default_config().data
    assert examples_of(data, pd.DataFrame({"seed": [0]})) == HeldOut(
        360, 10
    )  # of scikit-learn's digits
    counted = pd.DataFrame({"num_test": [np.nan, 24.0], "num_classes": [np.nan, 5.0]})
    assert examples_of(data, counted) == HeldOut(24, 5)
    assert examples_of(data, counted.assign(largest_class=0.5)) == HeldOut(24, 5, 0.5)
    assert examples_of(data, counted.assign(num_test=np.nan)) == HeldOut(360, 10)
    some = set_fields(settings.default_config(), {"data.classes": (3, 4, 7)}).data
    assert examples_of(some, pd.DataFrame({"seed": [0]})) == HeldOut(360, 3)


def test_an_unknown_item_of_the_paper_is_refused():
    config = set_fields(settings.default_config(), {"paper_item": "nosuch"})
    with pytest.raises(InputError, match="config.paper_item is 'nosuch'; accepted: .*fig6_mnist"):
        settings.validate(config)


def test_the_papers_numbers_stand_beside_ours():
    claims = make_claims(
        curves(_results((0.9, 0.9 * 0.97), (0.8, 0.8 * 0.5), noises=(0.0, 2.0), spread=0.001)),
        "lsa/table1/cifar2_gaussian",
    )
    by_item = {claim.item: claim for claim in claims}
    network = by_item["% of zero-noise accuracy retained at noise 2, network, within 3"]
    ntk = by_item["% of zero-noise accuracy retained at noise 2, finite NTK, within 3"]
    assert (network.paper, network.status) == (96.83, "shown")
    assert (ntk.paper, ntk.status) == (85.54, "not shown")


@pytest.mark.parametrize("end", [0.5, 3.0])
def test_only_what_is_retained_at_the_papers_noise_is_compared_with_its_numbers(end):
    results = _results((0.9, 0.9 * 0.97), (0.8, 0.8 * 0.86), noises=(0.0, end))
    gap, network, ntk, _ = make_claims(curves(results), "lsa/table1/cifar2_gaussian")
    assert (network.paper, network.status) == (96.83, "not run")
    assert (ntk.paper, ntk.status) == (85.54, "not run")
    assert (gap.paper, gap.ours, gap.status) == ("above 0", 11.0, "shown")


@pytest.mark.parametrize(
    ("clean", "noisy", "status"),
    [(0.86, 0.7, "shown"), (0.75, 0.6, "not shown"), (0.86, 0.86, "undecided")],
)
def test_accuracies_without_noise_are_close_as_in_table_b1_where_noise_parts_them(
    clean, noisy, status
):
    results = _results((0.9, 0.9), (clean, noisy), noises=(0.0, 2.0), spread=0.001)
    claim = make_claims(curves(results), "lsa/table1/cifar2_gaussian")[-1]
    assert claim.item.endswith("network minus finite NTK, within 4.9")
    assert claim.status == status and claim.ours == pytest.approx(90 - 100 * clean)


@pytest.mark.parametrize("learner", ["ntk_trained", "rfm"])
def test_a_kernel_that_has_learned_is_measured_and_no_claim_of_the_paper_is_about_it(learner):
    results = _results((0.9, 0.8), (0.8, 0.4)).replace("ntk_finite", learner)
    (gap,) = make_claims(curves(results), None)
    assert gap.item.endswith(f"network minus {settings.LEARNERS[learner].label}")
    assert (gap.paper, gap.status) == ("-", "measured")
    assert gap.ours == pytest.approx(100 * (0.8 / 0.9 - 0.4 / 0.8), abs=0.01)


def test_what_was_not_run_is_marked_so():
    results = _results((0.9, 0.8), (0.8, 0.4))
    claims = make_claims(
        curves(results[results["learner"] == "network"]), "lsa/table1/cifar2_gaussian"
    )
    assert {claim.status for claim in claims if "finite NTK" in claim.item} == {"not run"}
    without_zero = curves(results[results["noise"] > 0])
    assert {claim.status for claim in make_claims(without_zero, None)} == {"not run"}


def test_failed_runs_are_left_out_of_means_and_listed():
    results = _results((0.9, 0.8), (0.8, 0.4))
    results.loc[results.index[-1], ["test_accuracy", "status"]] = [np.nan, "failed"]
    table = curves(results)
    assert len(table) == len(results) - 1
    report = make_report(settings.default_config(), results, Path())
    assert "nan" not in report.tables[0][1].to_string()


def test_series_are_told_in_the_order_in_which_they_come():
    learners = ("ntk_infinite", "ntk_finite")
    results = _of_seeds({name: [(0.8, 0.6)] * 3 for name in learners})
    table = curves(results)
    found = list(
        dict.fromkeys(c.item.partition(", at")[0] for c in accuracies(table, HeldOut(1000, 10)))
    )
    assert found == [f"test accuracy (%) of the {name}" for name in table["series"].unique()]
    assert found != sorted(found)
    network = _of_seeds({name: [(0.8, 0.6)] * 3 for name in ("network", *learners)})
    claims = make_claims(curves(network), "lsa/fig6_mnist")
    par = [
        c.item.partition("minus ")[2].partition(", within")[0]
        for c in claims
        if "zero noise, network" in c.item
    ]
    assert par == list(table["series"].unique())


def test_widths_are_named_where_there_are_two_and_series_stay_in_the_order_of_the_results():
    def runs(learner, width, accuracies, seeds=2):
        of = dict(zip((0.0, 1.0), accuracies, strict=True))
        return pd.DataFrame(
            {"learner": learner, "width_factor": width, "noise": noise, "seed": seed}
            | {"test_accuracy": accuracy, "status": "ok"}
            for noise, accuracy in of.items()
            for seed in range(seeds)
        )

    label = LEARNERS["ntk_finite"].label
    wide, narrow = (
        runs("ntk_finite", width, (0.8, width / 20), seeds) for width, seeds in ((10, 3), (2, 2))
    )
    network = runs("network", 1, (0.5, 0.25), seeds=1)
    config = set_fields(settings.default_config(), {"sweep.ntk_width_factor": (10, 2)})
    found = make_report(config, pd.concat([wide, network, narrow]), Path())
    names = [f"{label}, width 10", LEARNERS["network"].label, f"{label}, width 2"]
    (_, accuracy), (heading, retained) = found.tables
    assert accuracy["series"].tolist() == retained["series"].tolist() == names
    assert accuracy["noise 1"].tolist() == ["50.00 ± 0.00", "25.00", "10.00 ± 0.00"]
    assert retained["noise 1"].tolist() == ["62.50 ± 0.00", "50.00", "12.50 ± 0.00"]
    fewer = f"{names[1]} 1, {names[2]} 2"
    assert f"Means over 3 seed(s) ({fewer})," in found.notes[0]
    single = set_fields(settings.default_config(), {"sweep.ntk_width_factor": (10,)})
    one = make_report(single, wide, Path())
    assert one.tables[0][1]["series"].tolist() == [label] and "3 seed(s)," in one.notes[0]
    none = make_report(config, wide.assign(status="failed"), Path())
    assert "Means over 0 seed(s)," in none.notes[0]


@pytest.mark.parametrize(
    ("background", "power", "label"),
    [
        ("gaussian", 1, "standard deviation of the background"),
        ("gaussian", 2, "square root of the background's standard deviation"),
        ("none", 2, "standard deviation of the background"),
        ("photographs", 2, "intensity of the background"),
    ],
)
def test_the_axis_says_what_its_numbers_are_of(background, power, label):
    fields = {"data.background": background, "data.std_power": power}
    config = set_fields(settings.default_config(), fields)
    report = make_report(config, _results((0.9, 0.8), (0.8, 0.5)), Path())
    figure = report.figures["noise_curves"]()
    assert {axis.get_xlabel() for axis in figure.axes} == {label}
    plt.close(figure)
    assert f"Test accuracy (%) against {label}" in [title for title, _ in report.tables]


def test_what_iterations_and_centres_took_is_told_of_the_runs_that_had_them():
    rows = _results((0.9, 0.8), (0.8, 0.5), seeds=1)
    kernels = rows["learner"] == "ntk_finite"
    rows.loc[kernels, "ridge"] = 0.5
    for name, value in (("residual", 1e-4), ("iterations", 7), ("kernel_gigabytes", 2.5)):
        rows.loc[kernels, name] = value
    tables = dict(make_report(settings.default_config(), rows, Path()).tables)
    table = tables["What was solved by iterations"]
    columns = ["series", "level", "seed", "ridge", "residual", "iterations", "kernel_gigabytes"]
    assert list(table) == columns and table["level"].tolist() == [0.0, 1.0]
    assert table.iloc[0].tolist()[3:] == [0.5, 1e-4, 7, 2.5]
    assert not any("on centres" in title for title in tables)
