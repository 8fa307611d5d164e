"""The reports on growing: correlations, regrets, claims, and stacking in stages."""

import functools
from pathlib import Path

import ml_collections
import pandas as pd

from lsa_jax.experiments.growing import figures
from lsa_jax.experiments.growing.claims import (
    LOW_REGRET,
    PREDICTIVE,
    UNINFORMATIVE,
    downstream_claims,
    family_claims,
    noise_claims,
    stacking_claims,
    strategies,
)
from lsa_jax.experiments.growing.families import (
    DOWNSTREAM,
    NUM_ITEMS,
    Family,
    describe,
    make_families,
)
from lsa_jax.experiments.growing.measures import MOST_UNEXPLAINED
from lsa_jax.experiments.growing.numbers import DOWNSTREAM_ACCURACY, STACKING_LOSS
from lsa_jax.experiments.growing.settings import sweep
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

SETTING = ["kind", "schedule"]

# Networks that are grown for no more steps than this only show that they start.
START_UP_STEPS = 10

_NUMBERS = {
    "base_loss": "loss before growing",
    "span": "worst minus best final loss",
    "initial_pearson": "Pearson, step 0",
    "initial_spearman": "Spearman, step 0",
    "lag_pearson": "Pearson, step k",
    "lag_spearman": "Spearman, step k",
    "split": "best split in two phases at step",
    "split_late": "correlation within the later phase",
    "split_across": "correlation across phases",
    "split_unexplained": "variance that they leave",
}

_REGRETS = {
    "final_loss": "final validation loss",
    "regret": "regret",
    "relative_regret": "relative regret",
}


def _cell(values: pd.Series) -> str:
    return mean_and_spread(values, ".4f")


def _means(found: pd.DataFrame, keys: list[str], columns: dict[str, str]) -> pd.DataFrame:
    """Returns means over seeds ± their standard deviation, one row a group, by heading."""
    groups = found.groupby(keys, sort=False)[[*columns]]
    return groups.agg(_cell).rename(columns=columns).reset_index()


def number_table(numbers: pd.DataFrame) -> pd.DataFrame:
    """Returns the correlations of each network and schedule, over seeds."""
    return _means(numbers, SETTING, _NUMBERS)


def strategy_table(config: ml_collections.ConfigDict, numbers: pd.DataFrame) -> pd.DataFrame:
    """Returns what each strategy costs against the best operator: tables 5.1 and 5.2."""
    rows = []
    for setting, found in numbers.groupby(SETTING, sort=False):
        for name, heading in strategies(config).items():
            if f"regret {name}" in found:
                row = {"strategy": heading}
                row |= {h: _cell(found[f"{measure} {name}"]) for measure, h in _REGRETS.items()}
                rows.append(dict(zip(SETTING, setting, strict=True)) | row)
    return pd.DataFrame(rows)


def operator_table(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns every operator's losses, best first, over seeds."""
    keys = [*SETTING, "index", "block_size", "source"]
    names = ("initial_loss", "lag_loss", "final_loss")
    headings = dict(zip(names, ("loss at step 0", "loss at step k", "final"), strict=True))
    order = fine.groupby(keys, sort=False)["final_loss"].mean().to_numpy()
    table = _means(fine, keys, headings).assign(order=order)
    table = table.sort_values([*SETTING, "order"], kind="stable").drop(columns="order")
    return table.rename(columns={"index": "i", "block_size": "b"})


def downstream_table(config: ml_collections.ConfigDict, numbers: pd.DataFrame) -> pd.DataFrame:
    """Returns percent right by strategy, with the thesis' numbers where it has the task."""
    tasks = [name.removeprefix(NUM_ITEMS) for name in numbers if name.startswith(NUM_ITEMS)]
    rows = []
    for place, (strategy, heading) in enumerate(strategies(config).items()):
        row = {"strategy": heading}
        for task in tasks:
            if f"{DOWNSTREAM}{task} {strategy}" not in numbers:
                continue
            if task in DOWNSTREAM_ACCURACY:
                row[f"{task}, thesis"] = f"{DOWNSTREAM_ACCURACY[task][place]:g}"
            percent = 100 * numbers[f"{DOWNSTREAM}{task} {strategy}"]
            row[f"{task} %"] = mean_and_spread(percent, ".2f")
        rows.append(row)
    return pd.DataFrame(rows)


def _checked(config: ml_collections.ConfigDict, rows: list[Row]) -> list[Row]:
    """Returns the rows of a sweep, "not run" where few steps only test that it starts."""
    steps = sum(config.stage_steps) if config.question == "stacking" else config.grow_steps
    if steps > START_UP_STEPS:
        return rows
    note = "a check that it starts"
    return [Row(one.item, one.paper, "", None, "not run", note=note) for one in rows]


def _decided(
    config: ml_collections.ConfigDict, results: pd.DataFrame, numbers: pd.DataFrame
) -> list[Row]:
    """Decides the claims on operators: of families, and of single points for their noise."""
    families, points = (Runs.of(sweep(config), table) for table in (numbers, results))
    rows = decide_all(family_claims(config), families)
    # Operators stand in for the test examples of a correlation.
    rows = [row._replace(note=row.note.replace("test examples", "operators")) for row in rows]
    rows += decide_all(noise_claims(config), points)
    return _checked(config, rows + decide_all(downstream_claims(config), families))


def _figures(config: ml_collections.ConfigDict, families: list[Family]) -> dict:
    settings = dict.fromkeys((family.kind, family.schedule) for family in families)
    drawn = {}
    for kind, schedule in settings:
        own = [f for f in families if (f.kind, f.schedule) == (kind, schedule)]
        drawn[f"panels_{kind}_{schedule}"] = functools.partial(figures.draw_panels, config, own)
        drawn[f"scatter_{kind}_{schedule}"] = functools.partial(figures.draw_scatter, config, own)
    if len({schedule for _, schedule in settings}) == 2:
        drawn["contrast"] = functools.partial(figures.draw_contrast, config, families)
    return drawn


def _operator_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    families = make_families(config, fine, workdir) if len(fine) else []
    numbers = pd.DataFrame([describe(config, family) for family in families])
    tables = []
    if len(numbers):
        tables = [
            (f"Correlation with the final loss, k = {config.lag_steps}", number_table(numbers)),
            ("Costs of each strategy", strategy_table(config, numbers)),
            ("Operators", operator_table(fine)),
        ]
        for (kind, schedule), found in numbers.groupby(SETTING, sort=False):
            if found.filter(like=DOWNSTREAM).notna().any(axis=None):
                heading = f"Percent right ({kind}, {schedule} rate)"
                tables.append((heading, downstream_table(config, found)))
    note = (
        "Means over seeds ± their standard deviation. Every operator of a seed starts from the "
        "same shallow network and sees the same text in the same order. Fixed before the run: the "
        f"final loss is the mean over the last {config.final_share:.0%} of {config.grow_steps} "
        f"steps; early losses are means over {config.smooth_steps} centred steps, except step 0; "
        f"LAG@{config.lag_steps} decides by the mean of the last {config.lag_window} steps up to "
        f"it. Uninformative is a mean rank correlation below {UNINFORMATIVE}, predictive one above "
        f"{PREDICTIVE}, low a relative regret below {LOW_REGRET}. "
        "Two phases are split by least squares on the self-correlation; they are clear, by a bound "
        f"of ours, where they leave at most {MOST_UNEXPLAINED:g} of its variance. "
        "The thesis' numbers are of BERT-Base (encoder) and UL2 with 1.1 billion parameters "
        "(decoder), 30 operators and one run of each."
    )
    return Report(
        title=config.title,
        tables=tables,
        claims=_decided(config, results, numbers) if len(numbers) else [],
        figures=_figures(config, families),
        extra_tables={"families": numbers, "curves": _curves(families)},
        notes=[note],
    )


def _curves(families: list[Family]) -> pd.DataFrame:
    """Returns one row a step and operator: the loss as measured, and smoothed."""
    parts = []
    for family in families:
        for place, operator in enumerate(family.operators):
            columns = {"kind": family.kind, "schedule": family.schedule, "seed": family.seed}
            columns |= operator._asdict() | {"step": family.steps}
            losses = {"loss": family.raw[:, place], "smoothed": family.smoothed[:, place]}
            parts.append(pd.DataFrame(columns | losses))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _stacking_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    tables, keys = [], [*SETTING, "strategy"]
    if len(fine):
        table = _means(fine, keys, {"final_loss": "final validation loss"})
        table.insert(3, "thesis", table["strategy"].map(STACKING_LOSS))
        steps = fine.groupby(keys, sort=False)["steps_spent"].max().to_numpy()
        table = table.assign(**{"steps, all candidates'": steps})
        shown = fine[[*SETTING, "seed", "strategy", "chosen"]]
        tables = [("Growing in stages", table), ("What was chosen", shown)]
    note = (
        f"Stages of {', '.join(map(str, config.stage_steps))} steps, {config.layers} layers first "
        f"and {config.added} more each time. Last stacking copies the last {config.added} layers "
        f"on top; adaptive stacking takes what LAG@{config.lag_steps} chooses, whose steps are the "
        "first of the stage. Final is the mean over the last "
        f"{config.final_share:.0%} of the last stage. The thesis' numbers are of BERT-Large."
    )
    return Report(
        title=config.title,
        tables=tables,
        claims=_checked(
            config, decide_all(stacking_claims(config), Runs.of(sweep(config), results))
        ),
        figures={"stacking": functools.partial(figures.draw_stacking, fine, workdir)},
        notes=[note],
    )


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep, by its question."""
    report = _stacking_report if config.question == "stacking" else _operator_report
    return report(config, results, workdir)
