"""The tables on growing, from made-up numbers, by hand."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.growing.report import (
    make_report,
    number_table,
    operator_table,
    strategy_table,
)
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.reporting import files
from lsa_jax.sweep.variants import set_fields


def configure(**fields):
    axes = {"lag_steps": 200, "sweep.seed": (0, 1, 2)}
    return set_fields(SETTINGS.default_config(), axes | fields)


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
    costs = strategy_table(configure(lag_steps=7), table)
    names = ["oracle", "LAG@7", "LAG@0", "last block on top"]  # no random block in these
    assert costs["strategy"].tolist() == names * 2
    assert costs["relative regret"].tolist()[4:] == ["0.0000", "0.1000", "0.6000", "0.3000"]
    assert costs["final validation loss"].tolist()[4:6] == ["2.0000", "2.1000"]


def test_operators_are_listed_by_their_mean_final_loss():
    rows = [
        {"index": i, "seed": seed, "initial_loss": 4.0, "lag_loss": 3.0, "final_loss": loss}
        for i, losses in ((0, (2.0, 2.4)), (1, (1.9, 2.1)), (2, (2.3, 2.3)))
        for seed, loss in enumerate(losses)
    ]
    fixed = {"kind": "encoder", "schedule": "constant", "block_size": 1, "source": "copy"}
    table = operator_table(pd.DataFrame(rows).assign(**fixed))
    assert table["i"].tolist() == [1, 0, 2]
    assert table["final"].tolist() == ["2.0000 ± 0.1414", "2.2000 ± 0.2828", "2.3000 ± 0.0000"]


@pytest.mark.parametrize(("stages", "run"), [((40, 50), True), ((4, 6), False)])
def test_stacking_is_reported_with_the_seeds_that_did_not_fail(tmp_path, stages, run):
    config = configure(question="stacking", stage_steps=stages, lag_steps=2)
    rows = pd.DataFrame(
        {"strategy": strategy, "seed": seed, "final_loss": loss + seed / 100, "steps_spent": steps}
        for strategy, loss, steps in (("last", 2.5, 40), ("adaptive", 2.25, 90))
        for seed in (0, 1, 2)
    ).assign(kind="encoder", schedule="constant", chosen="i=2 b=1 copy", status="ok")
    rows["id"] = [f"run{place}" for place in range(6)]
    for name in rows["id"]:
        files.write_run(tmp_path, name, {}, [{"step": step, "loss": 2.0} for step in (0, 9)])
    (claim,) = make_report(config, rows, tmp_path).claims
    if not run:  # ten steps show no more than that it starts
        assert claim.status == "not run" and claim.ours == ""
        return
    assert claim.status == "shown" and claim.ours == pytest.approx(0.25)
    rows.loc[0, "status"] = "failed"
    rows.loc[5, "steps_spent"] = 80  # of a seed with fewer candidates
    found = make_report(config, rows, tmp_path)
    (_, table), (_, chosen) = found.tables
    last, adaptive = table.to_dict("records")
    assert last["strategy"] == "last" and last["final validation loss"] == "2.5150 ± 0.0071"
    assert adaptive["steps, all candidates'"] == 90 and len(chosen) == 5
    assert last["thesis"] - adaptive["thesis"] == pytest.approx(0.0131)  # table C.2
    assert [row.status for row in found.claims] == ["condition not met"]
    assert found.figures["stacking"]() is not None
