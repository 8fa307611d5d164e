"""The operators of one network, schedule and seed together: their losses and what follows."""

from pathlib import Path
from typing import Any, NamedTuple

import ml_collections
import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from lsa_jax.experiments.growing import measures
from lsa_jax.experiments.growing.numbers import EARLY_STEPS
from lsa_jax.reporting import files
from lsa_jax.training.growth import Operator, stack_last

# Columns of what a grown decoder can do: a task's accuracy, and of how many items.
DOWNSTREAM, NUM_ITEMS = "downstream_", "items_"
# Columns of Spearman's correlation with the final losses, by steps after growing.
EARLY_SPEARMAN = "early_spearman "


class Family(NamedTuple):
    """One seed's search space.

    Attributes:
        kind: "encoder" or "decoder".
        schedule: of the learning rate.
        seed: of the shallow network and the order of the text.
        base_loss: of the shallow network, before growing.
        operators: those whose losses are finite.
        steps: after growing, at which the loss was measured.
        raw: the losses as they were measured.
        smoothed: after `measures.smooth`.
        lag: what LAG@k decides by.
        final: mean over the last steps.
        downstream: accuracy of each operator by task.
        items: how many each task has.
    """

    kind: str
    schedule: str
    seed: int
    base_loss: float
    operators: list[Operator]
    steps: Int[np.ndarray, " steps"]
    raw: Float[np.ndarray, "steps operators"]
    smoothed: Float[np.ndarray, "steps operators"]
    lag: Float[np.ndarray, " operators"]
    final: Float[np.ndarray, " operators"]
    downstream: dict[str, Float[np.ndarray, " operators"]]
    items: dict[str, int]


def make_families(
    config: ml_collections.ConfigDict, fine: pd.DataFrame, workdir: Path
) -> list[Family]:
    """Returns the families with at least three operators that did not fail.

    Args:
        config: of the sweep.
        fine: the points that did not fail.
        workdir: where their losses lie.
    """
    families = []
    for (kind, schedule, seed), rows in fine.groupby(["kind", "schedule", "seed"], sort=False):
        if len(rows) < 3:
            continue
        curves = [pd.DataFrame(files.read_metrics(workdir, run_id)) for run_id in rows["id"]]
        steps = curves[0]["step"].to_numpy()
        raw = np.stack([curve["loss"].to_numpy() for curve in curves], axis=1)
        tasks = [n.removeprefix(DOWNSTREAM) for n in rows if n.startswith(DOWNSTREAM)]
        tasks = [name for name in tasks if rows[DOWNSTREAM + name].notna().all()]
        names = rows[["index", "block_size", "source"]].itertuples(index=False, name=None)
        families.append(
            Family(
                kind,
                schedule,
                int(seed),
                float(rows["base_loss"].iloc[0]),
                [Operator(*name) for name in names],
                steps,
                raw,
                measures.smooth(raw, steps, config.smooth_steps),
                measures.lag_losses(raw, steps, config.lag_steps, config.lag_window),
                measures.final_losses(raw, steps, config.final_share),
                {name: rows[DOWNSTREAM + name].to_numpy() for name in tasks},
                {name: int(rows[NUM_ITEMS + name].iloc[0]) for name in tasks},
            )
        )
    return families


def choices(config: ml_collections.ConfigDict, family: Family) -> dict[str, int]:
    """Returns which operator each strategy takes, by its place.

    Absent where it is not there, or where several operators have the lowest loss to choose by.
    """
    chosen = {"oracle": int(np.argmin(family.final))}
    for name, losses in (("lag", family.lag), ("lag_0", family.raw[0])):
        if np.count_nonzero(losses == losses.min()) == 1:
            chosen[name] = int(np.argmin(losses))
    for source, name in (("copy", "stack_last"), ("random", "stack_random")):
        operator = stack_last(config.layers, config.added, source)
        if operator in family.operators:
            chosen[name] = family.operators.index(operator)
    return chosen


def _early_correlations(config: ml_collections.ConfigDict, family: Family) -> dict[str, float]:
    """Returns Spearman's correlation after as many steps as the thesis has it.

    The loss is averaged as for LAG@k; NaN where it was not measured then, or is part of the final
    one.
    """
    found, at = {}, family.steps
    for steps in EARLY_STEPS[family.kind]:
        name = f"{EARLY_SPEARMAN}{steps}"
        found[name] = np.nan
        measured = ((at > steps - config.lag_window) & (at <= steps)).any()
        if measured and steps < (1 - config.final_share) * at[-1]:
            early = measures.lag_losses(family.raw, at, steps, config.lag_window)
            found[name] = measures.spearman(early, family.final)
    return found


def describe(config: ml_collections.ConfigDict, family: Family) -> dict[str, Any]:
    """Returns the numbers of one family."""
    dense = family.steps <= config.dense_steps
    split = measures.phase_transition(measures.self_correlation(family.smoothed[dense]))
    step = np.nan if split is None else float(family.steps[split.place])
    chosen = choices(config, family)
    numbers = {
        "operators": len(family.operators),
        "base_loss": family.base_loss,
        "span": float(np.ptp(family.final)),
        "initial_pearson": measures.pearson(family.raw[0], family.final),
        "initial_spearman": measures.spearman(family.raw[0], family.final),
        "lag_pearson": measures.pearson(family.lag, family.final),
        "lag_spearman": measures.spearman(family.lag, family.final),
        "split": step,
        "split_late": np.nan if split is None else split.late,
        "split_across": np.nan if split is None else split.across,
        "split_unexplained": np.nan if split is None else split.unexplained,
        "clear_phases": np.nan if split is None else float(measures.is_clear(split)),
        "transition": step if measures.is_clear(split) else np.nan,
        "picks_random_top": np.nan,
    } | _early_correlations(config, family)
    if {"lag_0", "stack_random"} <= {*chosen}:
        numbers["picks_random_top"] = float(chosen["lag_0"] == chosen["stack_random"])
    for name in ("lag", "lag_0"):
        numbers[f"relative_regret {name}"] = np.nan
    for name, place in chosen.items():
        numbers[f"final_loss {name}"] = float(family.final[place])
        numbers[f"regret {name}"] = measures.regret(place, family.final)
        # Where all end alike there is nothing to regret, and nothing to be relative to.
        share = measures.relative_regret(place, family.final) if numbers["span"] else np.nan
        numbers[f"relative_regret {name}"] = share
        for task, accuracy in family.downstream.items():
            numbers[f"{DOWNSTREAM}{task} {name}"] = float(accuracy[place])
            numbers[f"{NUM_ITEMS}{task}"] = family.items[task]
    return {"kind": family.kind, "schedule": family.schedule, "seed": family.seed} | numbers
