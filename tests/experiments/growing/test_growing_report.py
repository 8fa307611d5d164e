"""The tables on growing, from made-up numbers, by hand."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.growing import report
from lsa_jax.experiments.growing.families import Family
from lsa_jax.experiments.growing.numbers import DOWNSTREAM_ACCURACY, STRATEGIES
from lsa_jax.experiments.growing.report import (
    downstream_table,
    make_report,
    number_table,
    operator_table,
    strategy_table,
)
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.reporting.report import Row
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.growth import Operator


def configure(**fields):
    return set_fields(
        SETTINGS.default_config(), {"lag_steps": 200, "sweep.seed": (0, 1, 2), **fields}
    )


def numbers(initial, early, kind="encoder"):
    """Returns a row a seed, as `describe` makes them; LAG@k costs 0.1, LAG@0 costs 0.6."""
    found = {"kind": kind, "schedule": "constant", "seed": np.arange(len(initial))}
    found |= {"base_loss": 3.0, "span": 0.5, "initial_pearson": 0.0, "lag_pearson": 0.9}
    found |= {"split": 20.0, "split_late": 0.9, "split_across": 0.1, "split_unexplained": 0.2}
    for name, cost in (("oracle", 0.0), ("lag", 0.1), ("lag_0", 0.6), ("stack_last", 0.3)):
        found |= {f"final_loss {name}": 2.0 + cost, f"regret {name}": cost / 2}
        found[f"relative_regret {name}"] = cost
    return pd.DataFrame(found | {"initial_spearman": initial, "lag_spearman": early})


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


def test_percentages_right_stand_beside_the_thesis_where_it_has_the_task():
    rows = {
        f"downstream_{task} {name}": own / 100
        for task, values in DOWNSTREAM_ACCURACY.items()
        for name, own in zip(STRATEGIES, values, strict=True)
    }
    rows |= {f"items_{task}": 100 for task in DOWNSTREAM_ACCURACY}
    table = downstream_table(configure(), pd.DataFrame(rows, index=range(3)))
    assert table["lambada, thesis"].tolist() == ["8.32", "7.6", "6.89", "6.9", "6.89"]
    assert table["lambada %"].tolist()[1] == "7.60 ± 0.00"


def test_ten_steps_check_no_more_than_that_it_starts():
    rows = [Row("item", "above 0", 1.0, None, "shown")]
    for steps, same in ((10, False), (11, True)):
        found = report._checked(configure(grow_steps=steps), rows)
        assert (found == rows) == same and (same or found[0].status == "not run")
    stages = configure(question="stacking", stage_steps=(4, 7), grow_steps=1)
    assert report._checked(stages, rows) == rows


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


def test_stacking_is_reported_with_the_seeds_that_did_not_fail(tmp_path):
    config = configure(question="stacking", stage_steps=(40, 50))
    fine = stages()
    (claim,) = make_report(config, fine, tmp_path).claims
    assert claim.status == "shown" and claim.ours == pytest.approx(0.25)
    assert make_report(config, fine[fine["seed"] == 0], tmp_path).claims[0].status != "shown"
    copies = fine.assign(final_loss=np.where(fine["strategy"] == "last", 2.5, 2.25))
    assert make_report(config, copies, tmp_path).claims[0].status == "condition not met"
    fine.loc[0, "status"] = "failed"
    fine.loc[5, "steps_spent"] = 80  # of a seed with fewer candidates
    found = make_report(config, fine, tmp_path)
    (_, table), (_, chosen) = found.tables
    last, adaptive = table.to_dict("records")
    assert last["strategy"] == "last" and last["final validation loss"] == "2.5150 ± 0.0071"
    assert adaptive["final validation loss"] == "2.2600 ± 0.0100"
    assert adaptive["steps, all candidates'"] == 90 and len(chosen) == 5
    assert last["thesis"] - adaptive["thesis"] == pytest.approx(0.0131)  # table C.2
    assert [row.status for row in found.claims] == ["condition not met"]
    assert make_report(config, fine.assign(status="failed"), tmp_path).tables == []


def test_nothing_is_told_of_operators_where_all_failed(tmp_path):
    found = make_report(configure(), stages().assign(status="failed"), tmp_path)
    assert found.tables == [] and found.claims == [] and found.extra_tables["curves"].empty
