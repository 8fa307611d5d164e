"""Claims and tables on learning rates, on the coordinate check and on papers' data, by hand."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.lazy_rich.coordinate_check import report as check
from lsa_jax.experiments.lazy_rich.coordinate_check import settings as check_settings
from lsa_jax.experiments.lazy_rich.learning_rates import best as rates
from lsa_jax.experiments.lazy_rich.learning_rates import report as rate_report
from lsa_jax.experiments.lazy_rich.learning_rates import settings as rate_settings
from lsa_jax.experiments.lazy_rich.papers import report as papers
from lsa_jax.experiments.lazy_rich.papers import settings as paper_settings
from lsa_jax.experiments.lazy_rich.papers.settings import FIXED, LEARNERS, TASKS
from lsa_jax.sweep.variants import set_fields


def configure(settings, table, **fields):
    """Returns a configuration whose axes are what is in a table."""
    names = ("seed", "width_factor", "optimizer", "learner", "task", "parameterization")
    config = settings.default_config()
    axes = {f"sweep.{n}": tuple(table[n].unique().tolist()) for n in names if n in table}
    axes = {name: values for name, values in axes.items() if name[6:] in config.sweep}
    if "learning_rate" in table:
        axes["sweep.learning_rate"] = tuple(sorted(table["learning_rate"].unique().tolist()))
    return set_fields(config, axes | fields)


def claims_of(report, settings, table, tmp_path, **fields):
    return report.make_report(configure(settings, table, **fields), table, tmp_path).claims


# Slopes by update rule and parameterisation: of the outputs, and of two layers before them.
STEEP = {
    ("sgd", "standard"): (0.31, 0.0, 0.1),
    ("sgd", "mup"): (0.0, 0.14, -0.16),
    ("sgd", "ntk"): (0.9, -0.5, -0.12),
    ("adam", "standard"): (0.29, 0.9, 0.9),
    ("adam", "mup"): (0.02, 0.03, 0.3),
}


def changes(slopes, seeds=3):
    """Returns changes that are powers of the width, whose slopes differ by seed by `by`."""
    rows = []
    for (rule, name), of_layers in slopes.items():
        for seed in range(seeds):
            by, common = 0.001 * (seed - 1), {"optimizer": rule, "parameterization": name}
            for width in (4, 1, 16):
                powers = {
                    f"change/{layer}": (2 + place) * width ** (slope + by)
                    for place, (layer, slope) in enumerate(
                        zip(("outputs", "second", "first"), of_layers, strict=True)
                    )
                }
                rows.append({**common, "seed": seed, "width_factor": width, **powers})
    return pd.DataFrame(rows).assign(status="ok")


def test_slopes_of_powers_of_the_width_are_their_exponents():
    table = changes(STEEP)
    assert check.layers(table) == ["change/second", "change/first", "change/outputs"]
    found = check.slopes(table)
    assert len(found) == 5 * 3 * 3
    for row in found.itertuples():
        place = ["outputs", "second", "first"].index(row.layer.removeprefix("change/"))
        expected = STEEP[row.optimizer, row.parameterization][place] + 0.001 * (row.seed - 1)
        assert row.slope == pytest.approx(expected, abs=1e-9)
    # What does not change has no logarithm, and one width has no slope.
    table.loc[(table["width_factor"] == 16) & (table["seed"] == 0), "change/first"] = 0.0
    assert np.allclose(check.slopes(table)["slope"], found["slope"])
    table.loc[(table["width_factor"] == 4) & (table["seed"] == 0), "change/first"] = 0.0
    assert len(check.slopes(table)) == len(found) - 5


def test_the_coordinate_check_decides_each_rule_by_its_control(tmp_path):
    claims = claims_of(check, check_settings, changes(STEEP), tmp_path)
    found = {c.item.removeprefix("slope of log change against log width, "): c for c in claims}
    expected = {
        "standard, sgd, outputs": (0.31, "shown"),
        "muP, sgd, second, within 0.15": (0.14, "shown"),
        "muP, sgd, first, within 0.15": (-0.16, "not shown"),
        "NTK, sgd, mean of features": (-0.31, "shown"),
        # Adam's control fails, so that nothing of muP can be said.
        "standard, adam, outputs": (0.29, "not shown"),
        "muP, adam, second, within 0.15": (0.03, "condition not met"),
        "muP, adam, first, within 0.15": (0.3, "condition not met"),
    }
    assert {item: (found[item].ours, found[item].status) for item in expected} == expected
    few = changes(STEEP)
    few = claims_of(check, check_settings, few[few["width_factor"] > 1], tmp_path)
    assert {claim.status for claim in few} == {"condition not met"}


def test_the_coordinate_check_s_table_and_figure_have_what_was_measured(tmp_path):
    failed = changes({("sgd", "mup"): (9.0, 9.0, 9.0)}).assign(status="failed")
    config = configure(check_settings, changes(STEEP), steps=4, batch_size=8)
    made = check.make_report(config, pd.concat([changes(STEEP), failed]), tmp_path)
    ((_, table),) = made.tables
    assert table["optimizer"].tolist() == ["sgd"] * 3 + ["adam"] * 2
    assert table["parameterization"].tolist() == ["standard", "mup", "ntk", "standard", "mup"]
    assert table["outputs"].tolist()[::2] == ["0.310 ± 0.001", "0.900 ± 0.001", "0.020 ± 0.001"]
    assert table["first"].tolist()[1:3] == ["-0.160 ± 0.001", "-0.120 ± 0.001"]
    assert "4 steps of 8 examples, 3 seed(s)" in made.notes[0]
    figure = made.figures["coordinate_check"]()
    assert len(figure.axes) == 6
    line = next(
        line
        for line in figure.axes[0].get_lines()
        if line.get_label() == "second" and len(line.get_xdata()) == 3
    )
    np.testing.assert_allclose(line.get_xdata(), [1, 4, 16])
    np.testing.assert_allclose(line.get_ydata(), [3, 3, 3], rtol=1e-4)
    assert figure.axes[4].get_title() == "muP, adam"


OCTAVES = np.arange(-9.0, 0.0)


@pytest.mark.parametrize("least", [-4.0, -8.2, -1.3])
@pytest.mark.parametrize(("curvature", "skew"), [(0.05, 0.0), (0.05, 0.02), (1.0, 0.1)])
def test_the_best_rate_is_the_least_of_the_polynomial_through_the_lowest_points(
    least, curvature, skew
):
    away = OCTAVES - least
    heights = curvature * away**2 + skew * away**2 * np.tanh(away) + 0.1 * np.abs(away) ** 1.5
    lowest = np.argsort(heights)
    # The curve has one valley: its lowest points are neighbours.
    count = max(5, int((heights <= heights.min() + 1.5).sum()))
    own = np.sort(lowest[:count])
    fitted = np.polynomial.Polynomial.fit(OCTAVES[own], heights[own], 4)
    roots = [root.real for root in fitted.deriv().roots() if abs(root.imag) < 1e-9]
    inside = [root for root in roots if OCTAVES[own[0]] <= root <= OCTAVES[own[-1]]]
    best = min([*inside, OCTAVES[own[0]], OCTAVES[own[-1]]], key=fitted)
    found = rates.best_rate(OCTAVES, np.stack([heights + 0.5, heights - 0.5]))
    assert found == pytest.approx(best, abs=0.003)


def test_the_best_rate_of_few_rates_and_beside_failed_ones():
    parabola = (OCTAVES[:3] + 7.6) ** 2
    assert rates.best_rate(OCTAVES[:3], parabola[None]) == pytest.approx(-7.6, abs=2e-3)
    for falls, end in ((-1.0, OCTAVES[-1]), (1.0, OCTAVES[0])):
        assert rates.best_rate(OCTAVES, falls * OCTAVES[None]) == end
    # Behind a rate that failed nothing is fitted: there is another valley, as deep.
    heights = np.where(OCTAVES < -3, (OCTAVES + 6) ** 2, (OCTAVES + 1) ** 2)
    heights[OCTAVES == -3] = np.inf
    assert rates.best_rate(OCTAVES, heights[None]) == pytest.approx(-6, abs=0.01)
    np.testing.assert_equal(rates.best_rate(OCTAVES[:1], np.ones((1, 1))), np.nan)


def sweep(bests, curvature=0.05):
    """Returns a sweep whose log losses are parabolas with given leasts: name, width -> by seed."""
    rows = [
        {
            "parameterization": name,
            "width_factor": width,
            "seed": seed,
            "learning_rate": 2.0**octave,
            "train_loss": np.exp(curvature * (octave - best) ** 2 - 1),
            "diverged": False,
            "status": "ok",
        }
        for (name, width), of_seed in bests.items()
        for seed, best in of_seed.items()
        for octave in OCTAVES[::-1]
    ]
    return pd.DataFrame(rows)


def test_a_curve_has_a_row_a_seed_and_rates_in_order():
    table = sweep({("mup", 1): {3: -4.0, 1: -5.0}, ("mup", 8): {3: 0.0}, ("ntk", 1): {3: 0.0}})
    table.loc[(table["seed"] == 1) & (table["learning_rate"] == 2.0**-5), "train_loss"] = 0.0
    found = rates.curve(table, "mup", 1)
    assert found.index.tolist() == [1, 3] and found.columns.tolist() == OCTAVES.tolist()
    np.testing.assert_allclose(found.loc[3], 0.05 * (OCTAVES + 4) ** 2 - 1)
    assert found.loc[1, -5.0] == pytest.approx(np.log(1e-12))


def test_parabolas_shift_by_the_mean_of_their_seeds_shifts_with_its_interval(tmp_path):
    # The mean of parabolas of one curvature is least at the mean of their leasts.
    first, last = [-4.0, -4.2, -3.7, -4.1], [-6.3, -5.9, -6.1, -5.8]
    bests = {
        ("standard", 2): dict(enumerate(first)) | {7: -8.0},  # a seed of one width alone
        ("standard", 32): dict(enumerate(last)) | {8: -1.0},
        ("standard", 8): dict.fromkeys(range(4), -1.0),
        ("mup", 2): dict(enumerate(first)),
        ("mup", 32): dict(enumerate(np.add(first, 0.3))),
    }
    fields = {"sweep.seed": (0, 1, 2, 3), "sweep.width_factor": (2, 32)}
    falls, stays = claims_of(rate_report, rate_settings, sweep(bests), tmp_path, **fields)
    shifts = np.subtract(last, first)
    half = scipy.stats.t.ppf(0.975, 3) * shifts.std(ddof=1) / 2
    assert falls.ours == pytest.approx(shifts.mean(), abs=0.02)
    assert falls.low == pytest.approx(shifts.mean() - half, abs=0.03)
    assert falls.high == pytest.approx(shifts.mean() + half, abs=0.03)
    assert stays.ours == pytest.approx(0.3, abs=0.02)
    assert (falls.status, stays.status) == ("shown", "shown")
    best = rates.best_rates(sweep(bests)).set_index(["parameterization", "width_factor"])
    assert best.loc[("mup", 2), "octaves"] == pytest.approx(np.mean(first), abs=0.01)
    assert best.loc[("mup", 2), "error"] == pytest.approx(np.std(first, ddof=1) / 2, abs=0.01)


@pytest.mark.parametrize(
    ("standard", "mup", "statuses"),
    [
        (-1.1, 0.9, ("shown", "shown")),
        (-1.1, -1.1, ("shown", "not shown")),
        (-0.9, 0.0, ("not shown", "condition not met")),
        (-9.0, 0.0, ("condition not met", "condition not met")),  # beyond the rates swept
    ],
)
def test_a_rate_falls_or_stays_by_a_factor_of_two(standard, mup, statuses, tmp_path):
    by = dict(enumerate((-0.01, 0.0, 0.01)))
    bests = {
        (name, width): {seed: -4.0 + shift * (width > 1) + own for seed, own in by.items()}
        for name, shift in (("standard", standard), ("mup", mup))
        for width in (1, 16)
    }
    claims = claims_of(rate_report, rate_settings, sweep(bests, 0.5), tmp_path)
    assert tuple(claim.status for claim in claims) == statuses


def test_the_table_of_rates_has_a_cell_a_width_and_the_figure_the_mean_losses(tmp_path):
    bests = {
        ("standard", 1): {0: -4.0, 1: -5.0},
        ("standard", 4): {0: -6.0},
        ("mup", 1): {0: -4.0},
    }
    table = sweep(bests)
    lost = (table["seed"] == 1) & (table["learning_rate"] == 0.5)
    table.loc[lost, ["train_loss", "diverged"]] = np.nan, True
    table["diverged"] = table["diverged"].astype(bool)
    config = configure(rate_settings, table, epochs=7)
    failed = table.assign(status="failed", train_loss=1.0)
    made = rate_report.make_report(config, pd.concat([table, failed]), tmp_path)
    ((_, shown),) = made.tables
    assert shown["parameterization"].tolist() == ["standard", "mup"]
    assert shown["width factor 1"].tolist() == ["-4.50 ± 0.50", "-4.00"]
    assert shown["width factor 4"].tolist()[0] == "-6.00"
    assert "after 7 epochs, 2 seed(s); 1 of 36 runs left" in made.notes[0]
    figure = made.figures["learning_rates"]()
    narrow = figure.axes[0].get_lines()[0]
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["1", "4"]
    seen = dict(zip(narrow.get_xdata(), narrow.get_ydata(), strict=True))
    assert seen[2.0**-4] == pytest.approx((np.exp(-1) + np.exp(0.05 - 1)) / 2)
    assert np.isnan(seen[0.5])
    for nothing in (failed, table.drop(columns="train_loss")):
        assert rate_report.make_report(config, nothing, tmp_path).notes == ["No run has finished."]


# Scores and errors of test examples by learner, in the order in which they are listed.
SCORES = {"network": 90.0, FIXED[0]: 60.0, FIXED[1]: 70.0, "ntk_trained": 86.0, "rfm": 75.0}
ERRORS = {"network": 0.3, FIXED[0]: 5.0, FIXED[1]: 0.4, "ntk_trained": 1.2, "rfm": 0.5}


def scored(task, seeds=3, scores=SCORES, **columns):
    """Returns runs whose scores have these means; seeds are not equal to the last bit."""
    by = 1e-6 * (np.arange(seeds) - (seeds - 1) / 2)
    rows = [
        {"learner": name, "seed": seed, "score": score + by[seed], "score_error": ERRORS[name]}
        for name, score in scores.items()
        for seed in range(seeds)
    ]
    common = {"num_test": 1000, "num_classes": 2, "status": "ok"}
    return pd.DataFrame(rows).assign(task=task, **(common | columns))


def test_a_kernel_closes_the_gap_above_midway(tmp_path):
    gap, trained, machine = claims_of(papers, paper_settings, scored("figure6"), tmp_path)
    assert (gap.ours, trained.ours, machine.ours) == (20.0, 6.0, -5.0)
    assert (gap.status, trained.status, machine.status) == ("shown", "shown", "shown")
    # The test images are shared by the seeds: the error is that of all learners compared.
    pair = np.hypot(0.3, 0.4)
    for row, error in ((gap, pair), (trained, np.hypot(1.2, pair / 2))):
        assert row.high - row.ours == pytest.approx(1.96 * error, abs=0.01)
    # Elsewhere each seed draws its own, and the spread over seeds is all there is.
    gap, _, machine = claims_of(papers, paper_settings, scored("figure3"), tmp_path)
    assert gap.high - gap.ours < 1e-3
    assert machine.status == "not shown"  # there the machine was expected above midway


@pytest.mark.parametrize(
    ("changed", "statuses"),
    [
        ({"network": 65.0}, ("not shown", "condition not met", "condition not met")),
        ({"network": 50.5, FIXED[1]: 20.0, FIXED[0]: 20.0}, ("condition not met",) * 3),
    ],
)
def test_without_a_gap_or_a_network_that_learns_nothing_is_closed(changed, statuses, tmp_path):
    table = scored("figure6", scores=SCORES | changed)
    claims = claims_of(papers, paper_settings, table, tmp_path)
    assert tuple(claim.status for claim in claims) == statuses


def test_the_papers_table_has_the_scores_and_the_part_of_a_gap_that_is_closed(tmp_path):
    table = pd.concat([scored("figure3", seeds=2), scored("figure6", seeds=2).assign(score=50.0)])
    table.loc[(table["seed"] == 1) & (table["learner"] == "rfm"), "score"] += 2
    config = configure(paper_settings, table, **{"sweep.task": ("figure6", "figure3")})
    failed = table.assign(status="failed", score=0.0, seed=9)
    made = papers.make_report(config, pd.concat([table, failed]), tmp_path)
    ((_, shown),) = made.tables
    assert shown["data"].tolist() == [TASKS["figure6"], TASKS["figure3"]]
    assert shown[LEARNERS["rfm"]].tolist() == ["51.0 ± 1.4", "76.0 ± 1.4"]
    assert shown[f"gap closed by {LEARNERS['rfm']} (%)"].tolist() == ["", "30"]
    assert shown[f"gap closed by {LEARNERS['ntk_trained']} (%)"].tolist() == ["", "80"]
    assert "Means over 2 seed(s)" in made.notes[0]
    figure = made.figures["papers"]()
    assert len(figure.axes[0].containers) == len(LEARNERS)
