"""The tables and claims on growing, from made-up numbers, by hand."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.growing import measures, report, settings
from lsa_jax.experiments.growing.claims import (
    contrast_claims,
    setting_claims,
    stacking_claims,
)
from lsa_jax.experiments.growing.families import Family
from lsa_jax.experiments.growing.noise_claims import noise_claims
from lsa_jax.experiments.growing.report import (
    make_report,
    number_table,
    operator_table,
    strategy_table,
)
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.growth import Operator


def configure(**fields):
    return set_fields(
        settings.default_config(), {"lag_steps": 200, "sweep.seed": (0, 1, 2), **fields}
    )


STRATEGIES = ("oracle", "lag", "lag_0", "stack_last")


def numbers(initial, early, *, kind="encoder", schedule="constant", operators=30, **columns):
    """Returns a row a seed, as `describe` makes them; LAG@k costs 0.1, LAG@0 costs 0.6."""
    count = len(initial)
    relative = {"oracle": 0.0, "lag": 0.1, "lag_0": 0.6, "stack_last": 0.3}
    found = {
        "base_loss": 3.0 + np.arange(count),
        "span": 0.5,
        "initial_pearson": 0.0,
        "lag_pearson": 0.9,
    }
    found |= {"split": 20.0, "split_late": 0.9, "split_across": 0.1, "split_unexplained": 0.2}
    found |= {"transition": 20.0, "picks_random_top": 1.0, "operators": operators}
    for name in STRATEGIES:
        found |= {f"final_loss {name}": 2.0 + relative[name], f"regret {name}": relative[name] / 2}
        found[f"relative_regret {name}"] = relative[name]
    found |= {"initial_spearman": initial, "lag_spearman": early}
    found |= {"early_spearman 200": np.nan, "early_spearman 5000": np.nan} | columns
    return pd.DataFrame(
        {"kind": kind, "schedule": schedule, "seed": np.arange(count)} | found,
        index=range(count),
    )


def test_tables_have_a_row_a_setting_and_strategy_with_means_over_seeds():
    table = pd.concat([numbers([0.1, 0.3], [0.8, 0.9]), numbers([0.5], [0.6], kind="decoder")])
    correlations = number_table(table)
    assert correlations["kind"].tolist() == ["encoder", "decoder"]
    assert correlations["Spearman, step 0"].tolist() == ["0.2000 ± 0.1414", "0.5000"]
    assert correlations["Spearman, step k"].tolist() == ["0.8500 ± 0.0707", "0.6000"]
    costs = strategy_table(configure(lag_steps=7), table)
    names = ["oracle", "LAG@7", "LAG@0", "last block on top"]  # no random block in these
    assert costs["strategy"].tolist() == names * 2
    assert costs["kind"].tolist() == ["encoder"] * 4 + ["decoder"] * 4
    assert costs["relative regret"].tolist()[4:] == ["0.0000", "0.1000", "0.6000", "0.3000"]
    assert costs["regret"].tolist()[4:] == ["0.0000", "0.0500", "0.3000", "0.1500"]
    assert costs["final validation loss"].tolist()[4:6] == ["2.0000", "2.1000"]


def noise_of(table):
    """Returns the claims on noise of a sweep that asks for these operators and seeds."""
    axes = {"sweep.index": tuple(sorted(table["index"].unique())), "sweep.block_size": (1,)}
    axes |= {"sweep.source": ("copy",), "sweep.seed": tuple(sorted(table["seed"].unique()))}
    return noise_claims(configure(**axes), table)


def losses(final, kind="encoder"):
    """Returns the points of operators' final losses, [seeds, operators]."""
    rows = [
        {"kind": kind, "schedule": "constant", "seed": seed, "index": index, "block_size": 1}
        | {"source": "copy", "final_loss": loss}
        for seed, row in enumerate(final)
        for index, loss in enumerate(row)
        if loss is not None
    ]
    return pd.DataFrame(rows)


def test_losses_that_differ_more_than_seeds_move_them_are_told_apart():
    noise = 0.01 * np.random.default_rng(5).normal(size=(5, 6))
    own = 0.1 * np.arange(6.0)
    apart, alike = noise_of(pd.concat([losses(own + noise), losses(noise, "decoder")]))
    assert apart.status == "shown" and apart.low < 10 * np.sqrt(3.5) < apart.high
    assert apart.item.endswith("(encoder, constant rate), above 1")
    assert alike.status == "not shown" and alike.high < 1
    (by_one,) = noise_of(losses(own + noise)[lambda table: table["seed"] == 0])
    assert by_one.status == "undecided" and by_one.note == "it would take 2 seeds or more"


def test_losses_that_differ_as_seeds_move_them_say_how_many_would_tell():
    signs = np.array([[1, -1, 0, 0], [-1, 1, 0, 0], [1, 0, -1, 0], [0, 0, 0, 0]])
    (claim,) = noise_of(losses(np.arange(4.0) + signs))
    assert claim.status == "undecided" and claim.low < 1 < claim.high
    needed = int(claim.note.split()[-2])
    for seeds, decided in ((needed - 1, False), (needed, True)):
        low, high = measures.spread_of(1 + seeds * claim.ours**2, seeds, 4)[1:]
        assert decided == (not low <= 1 < high)


def test_an_operator_that_failed_in_a_seed_is_left_out_of_the_noise():
    full = np.random.default_rng(0).normal(size=(5, 5))
    holed = full.astype(object)
    holed[2, 4] = None
    (some,), (rest,) = noise_of(losses(holed)), noise_of(losses(full[:, :4]))
    assert some == rest and some.status == "not shown"


def test_operators_are_listed_by_their_mean_final_loss():
    rows = [
        {"index": i, "seed": seed, "initial_loss": 4.0, "lag_loss": 3.0, "final_loss": loss}
        for i, losses in ((0, (2.0, 2.4)), (1, (1.9, 2.1)), (2, (2.3, 2.3)))
        for seed, loss in enumerate(losses)
    ]
    fine = pd.DataFrame(rows).assign(
        kind="encoder", schedule="constant", block_size=1, source="copy"
    )
    table = operator_table(fine)
    assert table["i"].tolist() == [1, 0, 2]
    assert table["final"].tolist() == ["2.0000 ± 0.1414", "2.2000 ± 0.2828", "2.3000 ± 0.0000"]
    assert list(table)[:5] == ["kind", "schedule", "i", "b", "source"]
    assert set(table["loss at step 0"]) == {"4.0000 ± 0.0000"}


def statuses(found):
    (kind,), (schedule,) = found["kind"].unique(), found["schedule"].unique()
    return {
        claim.item.split(" (")[0]: claim
        for claim in setting_claims(
            configure(**{"sweep.seed": tuple(found["seed"])}), kind, schedule, found
        )
    }


def test_an_early_loss_that_tells_lets_the_other_claims_decide():
    claims = statuses(numbers([-0.2, -0.1, -0.15], [0.95, 0.96, 0.97]))
    wanted = [
        "Spearman of the loss on growing with the final one",
        "Spearman of the loss after 200 steps with the final one",
        "relative regret of LAG@200",
        "relative regret of LAG@200 minus that of LAG@0",
        "seeds in which the operators' order has two clear phases",
    ]
    assert {name: claims[name].status for name in wanted} == dict.fromkeys(wanted, "shown")
    assert float(claims[wanted[2]].ours) == pytest.approx(0.1)
    assert float(claims[wanted[3]].ours) == pytest.approx(-0.5)
    assert "in 3 of 3 seeds, at 20, 20, 20" in str(claims[wanted[4]].ours)
    # What the thesis measured after another number of steps is not run.
    assert claims["Spearman of the loss after 5000 steps with the final one"].status == "not run"
    # Where no early loss tells, nothing that speaks for the thesis is shown.
    claims = statuses(numbers([-0.2, -0.1, -0.15], [0.1, 0.2, 0.15]))
    assert claims[wanted[1]].status == "not shown"
    assert {claims[name].status for name in (wanted[0], *wanted[2:])} == {"undecided"}
    assert {claims[name].note for name in wanted[2:]} == {"no early loss is shown to be predictive"}


def test_claims_name_the_bounds_that_decide_them():
    found = numbers([-0.2] * 3, [0.9] * 3, **{"early_spearman 200": [0.9] * 3})
    claims = setting_claims(configure(lag_steps=100), "encoder", "constant", found)
    where = "(encoder, constant rate)"
    bounds = {claim.item.split(where)[0].strip(): claim.item.split(where)[1] for claim in claims}
    spearman = "Spearman of the loss {} with the final one"
    assert bounds[spearman.format("on growing")] == ", below 0.3"
    for steps in (100, 200):
        assert bounds[spearman.format(f"after {steps} steps")] == ", above 0.7"
    assert bounds["relative regret of LAG@100"] == ", below 0.25"
    phases = bounds["seeds in which the operators' order has two clear phases"]
    assert phases == ", leaving 0.25 of the variance at most"


def test_steps_of_the_thesis_are_judged_beside_those_that_decide():
    at = "Spearman of the loss after {} steps with the final one"
    for early, status in (([0.95, 0.96, 0.97], "shown"), ([0.1, 0.2, 0.15], "not shown")):
        found = numbers([-0.2] * 3, [0.9] * 3, **{"early_spearman 200": early})
        claims = setting_claims(configure(lag_steps=100), "encoder", "constant", found)
        claims = {claim.item.split(" (")[0]: claim for claim in claims}
        assert claims[at.format(200)].status == status
        assert claims[at.format(200)].paper == "about 0.8"
        assert claims[at.format(200)].ours == pytest.approx(np.mean(early), abs=0.005)
        assert claims[at.format(5000)].status == "not run"


def test_a_random_block_that_is_always_chosen_is_luck_where_operators_are_few():
    for fewest, note in ((4, "it would take 3 seeds"), (10, "")):  # 1 / 16 and 1 / 100
        found = numbers([-0.2, -0.2], [0.999, 0.999], **{"relative_regret stack_random": 0.6})
        found = found.assign(operators=[fewest, 1000], initial_spearman=[-0.99, -0.99])
        claim = statuses(found)["share of seeds in which LAG@0 takes a random block on top"]
        assert claim.ours == claim.paper == 1.0
        assert [n for n in claim.note.split("; ") if n.startswith("it would")] == [note] * bool(
            note
        )


def test_a_correlation_lies_between_its_ends_and_asks_for_operators():
    found = numbers([-0.6, 0.6, 0.8], [0.9, 0.95, 0.99], operators=6)
    claims = statuses(found)
    on_growing = claims["Spearman of the loss on growing with the final one"]
    # Fisher's z: no end is beyond what a correlation can be.
    assert -1 < on_growing.low < -0.9 and 0.9 < on_growing.high < 1
    assert on_growing.status == "undecided"
    assert on_growing.note.endswith("times as many operators")
    early = claims["Spearman of the loss after 200 steps with the final one"]
    assert 0 < early.low < 0.95 and 0.99 < early.high < 1


def test_schedules_are_contrasted_seed_by_seed_in_the_order_of_the_networks():
    parts = [
        numbers(initial, [0.9] * 3, kind=kind, schedule=schedule)
        for kind, schedule, initial in (
            ("encoder", "constant", [0.0, 0.2, 0.1]),
            ("encoder", "cosine", [0.5, 0.7, 0.6]),
            ("decoder", "constant", [0.9, 0.8, 0.7]),
            ("decoder", "cosine", [0.1, 0.2, 0.3]),
        )
    ]
    encoder, decoder = contrast_claims(configure(), pd.concat(parts))
    assert "(encoder)" in encoder.item and "(decoder)" in decoder.item
    assert float(encoder.ours) == pytest.approx(0.5) and encoder.status == "shown"
    assert float(decoder.ours) == pytest.approx(-0.6) and decoder.status == "not shown"
    assert contrast_claims(configure(), pd.concat(parts[:1] + parts[2:3])) == []


def test_ten_steps_check_no_more_than_that_it_starts():
    claims = setting_claims(configure(), "encoder", "constant", numbers([0.0] * 3, [0.9] * 3))
    for steps, same in ((10, False), (11, True)):
        found = report._checked(configure(grow_steps=steps), claims)
        assert (found == claims) == same
        assert same or {claim.status for claim in found} == {"not run"}
    stages = configure(question="stacking", stage_steps=(4, 7), grow_steps=1)
    assert report._checked(stages, claims) == claims


def test_the_contrast_is_drawn_where_there_are_two_schedules():
    def drawn(*schedules):
        nothing = np.zeros((0, 0))
        parts = ([], np.zeros(0, int), nothing, nothing, np.zeros(0), np.zeros(0), {}, {})
        families = [Family("encoder", s, 0, 3.0, *parts) for s in schedules]
        figures = report._figures(configure(), families)
        for name, draw in figures.items():  # each of its own setting's families
            if name != "contrast":
                assert {f"{f.kind}_{f.schedule}" for f in draw.args[1]} == {name.split("_", 1)[1]}
        return set(figures)

    one = {"panels_encoder_constant", "scatter_encoder_constant"}
    assert drawn("constant", "constant") == one
    both = one | {"panels_encoder_cosine", "scatter_encoder_cosine", "contrast"}
    assert drawn("constant", "cosine") == both


def test_the_table_of_curves_has_each_operators_losses_by_step():
    operators, steps = [Operator(1, 2, "copy"), Operator(0, 1, "random")], np.array([0, 5, 9])
    raw = np.array([[3.0, 4], [2, 3.5], [1.5, 3]])
    rest = (raw, raw / 2, np.zeros(2), np.zeros(2), {}, {})
    family = Family("encoder", "cosine", 7, 3.0, operators, steps, *rest)
    found = report._curves([family, family._replace(kind="decoder")])
    assert found["kind"].tolist() == ["encoder"] * 6 + ["decoder"] * 6
    second = found.iloc[3:6]
    assert second["source"].tolist() == ["random"] * 3 and second["step"].tolist() == [0, 5, 9]
    assert second["loss"].tolist() == [4, 3.5, 3] and second["smoothed"].tolist() == [2, 1.75, 1.5]


def stages():
    rows = [
        {"strategy": strategy, "seed": seed, "final_loss": loss + seed / 100, "steps_spent": steps}
        for strategy, loss, steps in (("last", 2.5, 40), ("adaptive", 2.25, 90))
        for seed in (0, 1, 2)
    ]
    return pd.DataFrame(rows).assign(
        kind="encoder", schedule="constant", chosen="i=2 b=1 copy", status="ok"
    )


def test_stacking_is_told_beside_the_thesis_with_the_seeds_that_did_not_fail(tmp_path):
    config = configure(question="stacking", stage_steps=(40, 50))
    fine = stages()
    (claim,) = stacking_claims(config, fine)
    assert claim.status == "shown" and float(claim.ours) == pytest.approx(0.25)
    assert claim.paper == pytest.approx(0.0131)  # Karp (2024), table C.2
    fine.loc[0, "status"] = "failed"
    fine.loc[5, "steps_spent"] = 80  # of a seed with fewer candidates
    found = make_report(config, fine, tmp_path)
    (_, table), (_, chosen) = found.tables
    last, adaptive = table.to_dict("records")
    assert last["strategy"] == "last" and last["final validation loss"] == "2.5150 ± 0.0071"
    assert adaptive["final validation loss"] == "2.2600 ± 0.0100"
    assert adaptive["steps, all candidates'"] == 90 and len(chosen) == 5
    assert last["thesis"] - adaptive["thesis"] == pytest.approx(claim.paper)
    assert [c.status for c in found.claims] == ["undecided"]
    assert "1 of 3 seeds have no loss of both strategies" in found.claims[0].note
    none = make_report(config, fine.assign(status="failed"), tmp_path)
    assert none.tables == [] and none.claims == []


def test_nothing_is_told_of_operators_where_all_failed(tmp_path):
    found = make_report(configure(), stages().assign(status="failed"), tmp_path)
    assert found.tables == [] and found.claims == [] and found.extra_tables["curves"].empty


def test_claims_come_in_the_order_of_the_settings_that_were_run(monkeypatch, tmp_path):
    rows = pd.concat([numbers([0.1] * 3, [0.9] * 3, kind=kind) for kind in ("encoder", "decoder")])
    monkeypatch.setattr(report, "make_families", lambda *given: rows.to_dict("records"))
    monkeypatch.setattr(report, "describe", lambda config, row: row)
    for beside in ("operator_table", "_curves"):
        monkeypatch.setattr(report, beside, lambda *given: pd.DataFrame())
    for beside in ("noise_claims", "contrast_claims"):
        monkeypatch.setattr(report, beside, lambda *given: [])
    monkeypatch.setattr(report, "_figures", lambda *given: {})
    results = pd.DataFrame({"status": ["ok"] * 6})
    found = make_report(configure(grow_steps=2000), results, tmp_path).claims
    kinds = [claim.item.rpartition("(")[2].partition(",")[0] for claim in found]
    assert set(kinds) == {"encoder", "decoder"} and kinds == sorted(kinds, reverse=True)
