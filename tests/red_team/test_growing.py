"""Made-up results of growing show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.growing import downstream_report, report, settings
from lsa_jax.experiments.growing.families import Family
from lsa_jax.experiments.growing.noise_claims import noise_claims
from lsa_jax.sweep.variants import set_fields

OPERATORS = 12


def correlations(
    initial, early, regret, regret_0=0.8, top=1.0, transition=50.0, operators=OPERATORS
):
    """Returns the claims on numbers by seed."""
    config = set_fields(settings.default_config(), {"lag_steps": 100})
    found = pd.DataFrame(
        {
            "initial_spearman": initial,
            "lag_spearman": early,
            "early_spearman 200": early,
            "early_spearman 5000": early,
            "relative_regret lag": regret,
            "relative_regret lag_0": regret_0,
            "relative_regret stack_random": regret_0,
            "picks_random_top": top,
            "transition": transition,
            "operators": operators,
        }
    )
    return report.setting_claims(config, "encoder", "constant", found)


def test_final_losses_that_differ_by_noise_show_nothing(nothing_shown):
    rng = np.random.default_rng(0)
    for seeds in (1, 2, 5):
        for _ in range(20):
            losses = rng.normal(size=(seeds, 3, OPERATORS))
            spearman = [
                [pd.Series(of[i]).corr(pd.Series(of[2]), method="spearman") for of in losses]
                for i in (0, 1)
            ]
            regret = [
                [np.ptp(of[2][[of[i].argmin(), of[2].argmin()]]) / np.ptp(of[2]) for of in losses]
                for i in (0, 1)
            ]
            top = [float(of[0].argmin() == 0) for of in losses]
            nothing_shown(correlations(*spearman, regret[1], regret[0], top))


def test_final_losses_that_are_noise_or_equal_are_not_told_apart(nothing_shown):
    rng = np.random.default_rng(0)
    for seeds in (1, 2, 5):
        for noise in (*rng.normal(size=(20, seeds, OPERATORS)), np.zeros((seeds, OPERATORS))):
            noise += 5 * rng.normal(size=(seeds, 1))
            table = (
                pd.DataFrame(noise)
                .rename_axis("seed")
                .melt(var_name="index", value_name="final_loss", ignore_index=False)
            )
            table = table.reset_index().assign(
                kind="encoder", schedule="constant", block_size=1, source="copy"
            )
            nothing_shown(noise_claims(table))


@pytest.mark.parametrize(
    ("initial", "early"), [((0.9, 0.95, 0.9), (0.0, 0.1, -0.1)), ((0.0, 0.1), (0.0, 0.1))]
)
def test_exchanged_and_equal_early_losses_show_nothing(initial, early, nothing_shown):
    initial, early = list(initial), list(early)
    nothing_shown(correlations(initial, early, 0.8, 0.1, 0.0, np.nan))
    nothing_shown(correlations(initial, early, 0.0, 0.8))


def test_operators_of_equal_losses_show_nothing(nothing_shown):
    nothing_shown(correlations([np.nan] * 3, [np.nan] * 3, np.nan, np.nan, 0.0, np.nan))


def test_stacking_by_noise_shows_nothing(nothing_shown):
    for losses in ([1.0, 1.0, 1.0], [1.2, 0.9, 1.1], [1.1, 1.1, 1.1], [0.9]):
        rows = [
            {"kind": "encoder", "schedule": "constant", "seed": seed, "strategy": strategy}
            | {"final_loss": loss}
            for seed, own in enumerate(losses)
            for strategy, loss in (("last", 1.0), ("adaptive", own))
        ]
        nothing_shown(report.stacking_claims(pd.DataFrame(rows)))


@pytest.mark.parametrize(
    ("lag", "others"),
    [
        ((0.0,) * 3, (0.0,) * 3),  # nothing is right
        ((0.0004,) * 3, (0.0,) * 3),
        ((0.1,) * 3, (0.1,) * 3),  # equal
        ((0.1,) * 3, (0.2,) * 3),  # exchanged
        ((0.2, 0.1, 0.15), (0.1, 0.15, 0.19)),  # noise
        ((0.102,), (0.1,)),  # one seed, by fewer items than would tell
    ],
)
def test_decoders_that_are_right_as_often_however_they_grew_show_nothing(
    lag, others, nothing_shown
):
    names = {name: name for name in ("oracle", "lag", "lag_0", "stack_last", "stack_random")}
    columns = {f"downstream_lambada {name}": others for name in names} | {"items_lambada": 2000}
    numbers = pd.DataFrame(columns | {"downstream_lambada lag": lag})
    nothing_shown(downstream_report.downstream_claims(numbers, names))


@pytest.mark.parametrize("question", ["operators", "stacking"])
def test_a_few_steps_are_no_result(question):
    config = set_fields(
        settings.default_config(),
        {"question": question, "grow_steps": 10, "lag_steps": 1, "stage_steps": (4, 6)},
    )
    claims = correlations([0.0] * 5, [0.99] * 5, 0.0)
    assert "shown" in {claim.status for claim in claims}
    assert {claim.status for claim in report._checked(config, claims)} == {"not run"}
    more = set_fields(config, {"grow_steps": 11, "stage_steps": (4, 7)})
    assert report._checked(more, claims) == claims


def test_a_correlation_has_the_error_of_its_operators():
    """With one seed it is all there is: 1.06 / (n - 3) for the inverse hyperbolic tangent."""
    (early,) = (c for c in correlations([0.1], [0.4], 0.0) if "after 200 steps" in c.item)
    reach = 1.96 * (1 - 0.4**2) * (1.06 / (OPERATORS - 3)) ** 0.5
    np.testing.assert_allclose((early.low, early.high), 0.4 + reach * np.r_[-1, 1], rtol=1e-3)
    (initial,) = (c for c in correlations([0.1], [0.8], 0.0) if "loss on growing" in c.item)
    reach = 1.96 * (1 - 0.1**2) * (1.06 / (OPERATORS - 3)) ** 0.5
    np.testing.assert_allclose((initial.low, initial.high), 0.1 + reach * np.r_[-1, 1], rtol=1e-3)
    # Seeds with fewer operators tell less: the fewest count.
    few = report._rank_error(pd.Series([0.6, 0.4]), pd.Series([12.0, 9.0]))
    np.testing.assert_allclose(few, (1 - 0.5**2) * (1.06 / 6) ** 0.5)


@pytest.mark.parametrize(("seeds", "status"), [(1, "undecided"), (2, "shown")])
def test_a_random_block_on_top_is_one_of_the_operators_by_luck(seeds, status):
    # One of twelve: by luck in one seed of 12, in two of 144.
    sure = [0.9] * seeds
    found = correlations([0.0] * seeds, sure, [0.0] * seeds)
    (top,) = (claim for claim in found if "random block on top" in claim.item)
    assert top.status in (status, "undecided") and ("2 seeds" in top.note) == (seeds == 1)

    # Seeds with fewer operators have it by luck more often: the fewest count.
    few = correlations([0.0] * 2, [0.9] * 2, [0.0] * 2, operators=[3, 300])
    (top,) = (claim for claim in few if "random block on top" in claim.item)
    assert "it would take 4 seeds" in top.note  # 3^-4 is the first below 2.5 %


def test_how_much_more_a_decaying_rate_tells_is_a_difference_by_seed():
    constant, cosine = [0.1, 0.5, 0.3], [0.9, 0.6, 0.8]
    rows = [
        {"kind": kind, "schedule": schedule, "seed": seed, "initial_spearman": number}
        for kind in ("encoder", "decoder")
        for schedule, numbers in (("constant", constant), ("cosine", cosine))
        for seed, number in enumerate(numbers)
    ]
    claims = report.contrast_claims(pd.DataFrame(rows))
    assert [claim.item[-9:] for claim in claims] == ["(encoder)", "(decoder)"]
    differences = np.subtract(cosine, constant)
    reach = 4.3027 * differences.std(ddof=1) / 3**0.5  # Student's t of 2 degrees of freedom
    for claim in claims:
        assert claim.ours == pytest.approx(differences.mean(), abs=1e-4)
        ends = differences.mean() + reach * np.r_[-1, 1]
        np.testing.assert_allclose((claim.low, claim.high), ends, rtol=1e-3)
    assert report.contrast_claims(pd.DataFrame(rows[:3])) == []


@pytest.mark.parametrize("schedules", [("constant",), ("constant", "cosine")])
def test_schedules_are_contrasted_in_a_figure_where_there_are_two(schedules):
    steps, losses, one = np.arange(2), np.ones((2, 1)), np.ones(1)
    families = [
        Family("decoder", name, 0, 1.0, [], steps, losses, losses, one, one, {}, {})
        for name in schedules
    ]
    names = set(report._figures(settings.default_config(), families))
    panels = {f"{of}_decoder_{name}" for of in ("panels", "scatter") for name in schedules}
    assert names == panels | ({"contrast"} if len(schedules) == 2 else set())


def test_a_report_on_stages_has_the_thesis_loss_of_each_strategy_and_what_came_out(tmp_path):
    config = set_fields(settings.default_config(), {"question": "stacking"})
    losses = {"last": (2.0, 2.2), "adaptive": (1.9, 2.0)}
    rows = [
        {"kind": "encoder", "schedule": "constant", "strategy": name, "seed": seed}
        | {"final_loss": loss, "steps_spent": 200, "chosen": "", "status": "ok"}
        for name, own in losses.items()
        for seed, loss in enumerate(own)
    ]
    found = report.make_report(config, pd.DataFrame(rows), tmp_path)
    table = found.tables[0][1].set_index("strategy")
    assert table["thesis"].to_dict() == {"last": 1.5432, "adaptive": 1.5301}
    assert table.loc["last", "final validation loss"] == "2.1000 ± 0.1414"
    (claim,) = found.claims
    assert (claim.paper, claim.ours) == (0.0131, pytest.approx(0.15))
    failed = pd.DataFrame(rows).assign(status="failed")
    empty = report.make_report(config, failed, tmp_path)
    assert empty.claims == [] and empty.tables == []
