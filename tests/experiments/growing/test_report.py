"""The tables on growing, from made-up numbers, by hand."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.growing.report import make_report, strategy_table
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.reporting import files
from lsa_jax.sweep.variants import set_fields


def configure(**fields):
    axes = {"lag_steps": 200, "sweep.seed": (0, 1, 2)}
    return set_fields(SETTINGS.default_config(), axes | fields)


def test_strategies_have_means_over_seeds_beside_the_thesis_numbers():
    rows = [
        {"seed": seed, "strategy": name, "final_loss": 2 + cost, "regret": cost / 2}
        | {"relative_regret": cost + seed / 5, "downstream_lambada": 0.25 + seed / 10}
        for name, cost in (("oracle", 0.0), ("lag", 0.1), ("lag_0", 0.6))
        for seed in (0, 1)
    ]
    costs = pd.DataFrame(rows).assign(kind="decoder", schedule="cosine")
    table = strategy_table(configure(lag_steps=7), costs)
    assert table["strategy"].tolist() == ["oracle", "LAG@7", "LAG@0"]
    assert table["relative regret"].tolist() == ["0.1 ± 0.14", "0.2 ± 0.14", "0.7 ± 0.14"]
    assert table["lambada %"].tolist() == ["30 ± 7.1"] * 3
    assert table["lambada %, thesis"].tolist() == [8.32, 7.6, 6.89]


@pytest.mark.parametrize(("stages", "run"), [((40, 50), True), ((4, 6), False)])
def test_stacking_is_reported_with_the_seeds_that_did_not_fail(tmp_path, stages, run):
    config = configure(question="stacking", stage_steps=stages, lag_steps=2)
    rows = pd.DataFrame(
        {"strategy": strategy, "seed": seed, "final_loss": loss + seed / 100, "steps_spent": 40}
        for strategy, loss in (("last", 2.5), ("adaptive", 2.25))
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
    found = make_report(config, rows, tmp_path)
    (_, table), (_, chosen) = found.tables
    assert table["final validation loss"].tolist()[0] == "2.515 ± 0.0071" and len(chosen) == 5
    assert -np.diff(table["thesis"]) == pytest.approx(0.0131)  # table C.2
    assert [row.status for row in found.claims] == ["condition not met"]
    assert found.figures["stacking"]() is not None
