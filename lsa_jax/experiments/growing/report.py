"""Tables and figures on growing: correlations, regrets, and stacking in stages."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.growing.claims import (
    LOW_REGRET,
    PREDICTIVE,
    UNINFORMATIVE,
    Config,
    family_claims,
    noise_claims,
    stacking_claims,
    strategies,
)
from lsa_jax.experiments.growing.families import (
    DOWNSTREAM,
    FAMILY,
    MOST_UNEXPLAINED,
    OPERATOR,
    Family,
    describe,
    make_families,
    rank_correlations,
    recall,
    relative_regret,
    self_correlation,
    strategy_costs,
)
from lsa_jax.experiments.growing.settings import sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, draw_series, subplots
from lsa_jax.reporting.report import Report, Row, not_run
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import table_of_means

SETTING = ["kind", "schedule"]
# Networks that are grown for no more steps than this only show that they start.
START_UP_STEPS = 10
# Table C.2: final validation loss of BERT-Large grown in six stages.
_STACKING_LOSS = {"adaptive": 1.5301, "last": 1.5432}
# Table C.1: percent right after one example, by strategy, of UL2 grown from 12 to 16 layers by
# LAG@2000.
DOWNSTREAM_ACCURACY = {
    "tydiqa": (28.18, 25.23, 21.82, 21.59, 21.82),
    "triviaqa": (13.84, 13.44, 12.19, 12.39, 12.19),
    "lambada": (8.32, 7.60, 6.89, 6.90, 6.89),
}

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
_LOSSES = {"initial_loss": "loss at step 0", "lag_loss": "loss at step k", "final_loss": "final"}


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep, by its question."""
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    stacking = config.question == "stacking"
    parts = _stacking_parts if stacking else _operator_parts
    report = Report(config.title, **parts(config, fine, results, workdir))
    steps = sum(config.stage_steps) if stacking else config.grow_steps
    if steps > START_UP_STEPS:
        return report
    return report._replace(claims=not_run(report.claims, "a check that it starts"))


def _operator_parts(
    config: Config, fine: pd.DataFrame, results: pd.DataFrame, workdir: Path
) -> dict[str, Any]:
    families = make_families(config, fine, workdir)
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
    if not families:
        return {"tables": [], "claims": [], "figures": {}, "notes": [note]}
    numbers = pd.DataFrame([describe(config, family) for family in families])
    costs = pd.concat([strategy_costs(config, family) for family in families])
    order = fine.groupby([*SETTING, *OPERATOR])["final_loss"].transform("mean")
    best_first = fine.assign(order=order).sort_values([*SETTING, "order"], kind="stable")
    return {
        "tables": [
            (
                f"Correlation with the final loss, k = {config.lag_steps}",
                table_of_means(numbers, SETTING, _NUMBERS),
            ),
            ("Costs of each strategy", strategy_table(config, costs)),
            ("Operators", table_of_means(best_first, [*SETTING, *OPERATOR], _LOSSES)),
        ],
        "claims": _decided(config, results, costs.merge(numbers, on=FAMILY)),
        "figures": _figures(config, families),
        "extra_tables": {"families": numbers, "strategies": costs, "curves": _curves(families)},
        "notes": [note],
    }


def _curves(families: list[Family]) -> pd.DataFrame:
    """Returns a row an operator and step: its loss, and its smoothed loss."""
    parts = [
        pd.DataFrame(
            family.settings
            | operator._asdict()
            | {"step": family.steps, "loss": family.raw[:, i], "smoothed": family.smoothed[:, i]}
        )
        for family in families
        for i, operator in enumerate(family.operators)
    ]
    return pd.concat(parts, ignore_index=True)


def _decided(config: Config, results: pd.DataFrame, families: pd.DataFrame) -> list[Row]:
    """Decides the claims on operators: of families, and of single points for their noise."""
    rows = decide_all(family_claims(config), Runs.of(sweep(config), families))
    # Operators stand in for the test examples of a correlation.
    rows = [row._replace(note=row.note.replace("test examples", "operators")) for row in rows]
    return rows + decide_all(noise_claims(config), Runs.of(sweep(config), results))


def _stacking_parts(
    config: Config, fine: pd.DataFrame, results: pd.DataFrame, workdir: Path
) -> dict[str, Any]:
    columns = {"final_loss": "final validation loss", "steps_spent": "steps, all candidates'"}
    table = table_of_means(fine, [*SETTING, "strategy"], columns)
    table.insert(3, "thesis", table["strategy"].map(_STACKING_LOSS))
    note = (
        f"Stages of {', '.join(map(str, config.stage_steps))} steps, {config.layers} layers first "
        f"and {config.added} more each time. Last stacking copies the last {config.added} layers "
        f"on top; adaptive stacking takes the choice of LAG@{config.lag_steps}, whose steps are "
        "the first of the stage. Final is the mean over the last "
        f"{config.final_share:.0%} of the last stage. The thesis' numbers are of BERT-Large."
    )
    return {
        "tables": [
            ("Growing in stages", table),
            ("Chosen operators", fine[[*SETTING, "seed", "strategy", "chosen"]]),
        ],
        "claims": decide_all(stacking_claims(config), Runs.of(sweep(config), results)),
        "figures": {"stacking": partial(_draw_stacking, fine, workdir)},
        "notes": [note],
    }


def strategy_table(config: Config, costs: pd.DataFrame) -> pd.DataFrame:
    """Returns losses and regrets of each strategy: tables 5.1 and 5.2, and C.1 in percent."""
    names = strategies(config)
    tasks = [n.removeprefix(DOWNSTREAM) for n in costs if n.startswith(DOWNSTREAM)]
    percent = {f"{task} %": 100 * costs[f"{DOWNSTREAM}{task}"] for task in tasks}
    columns = _REGRETS | {name: name for name in percent}
    table = table_of_means(costs.assign(**percent), [*SETTING, "strategy"], columns)
    for task in set(tasks) & {*DOWNSTREAM_ACCURACY}:
        printed = dict(zip(names, DOWNSTREAM_ACCURACY[task], strict=True))
        table[f"{task} %, thesis"] = table["strategy"].map(printed)
    return table.replace({"strategy": names})


def _figures(config: Config, families: list[Family]) -> dict[str, partial]:
    """Returns the figures of each network and schedule, and of both schedules where there are."""
    own: dict[tuple, list[Family]] = {}
    for family in families:
        own.setdefault(tuple(family.settings.values())[:2], []).append(family)
    drawn = {}
    for (kind, schedule), found in own.items():
        drawn[f"panels_{kind}_{schedule}"] = partial(_draw_panels, config, found)
        drawn[f"scatter_{kind}_{schedule}"] = partial(_draw_scatter, config, found)
    if len({schedule for _, schedule in own}) == 2:
        drawn["contrast"] = partial(_draw_contrast, config, own)
    return drawn


def _dense(config: Config, families: list[Family]) -> tuple[np.ndarray, list[tuple]]:
    """Returns the closely watched steps; by family its smoothed losses there, and final ones."""
    inside = families[0].steps <= config.dense_steps
    return families[0].steps[inside], [(one.smoothed[inside], one.final) for one in families]


def _draw_quality(
    axes: Any, config: Config, families: list[Family], color: str, label: str
) -> None:
    """Draws rank correlations with the final loss, and relative regrets, in bands over seeds."""
    steps, losses = _dense(config, families)
    correlations = [rank_correlations(*pair) for pair in losses]
    regrets = [relative_regret(final)[early.argmin(axis=1)] for early, final in losses]
    for axis, curves, least in zip(axes, (correlations, regrets), (-1.05, -0.05), strict=True):
        places = pd.Series(np.tile(steps, len(families)))
        draw_mean(axis, pd.Series(np.concatenate(curves)), places, color=color, label=label)
        axis.plot(steps, np.transpose(curves), color=color, lw=0.4, alpha=0.4)
        axis.set(ylim=(least, 1.05), xlabel="steps after growing")
    axes[0].set(title="Spearman with the final loss")
    axes[1].set(title="relative regret")
    axes[0].axhline(0, color="black", lw=0.6)


def _draw_panels(config: Config, families: list[Family]) -> Any:
    """Draws the four panels of figure 5.3 over the seeds of one network and schedule."""
    figure, axes = subplots(2, 2, 4.5, 3.8)
    steps, losses = _dense(config, families)
    heat = np.mean([self_correlation(rows) for rows, _ in losses], axis=0)
    places = [*steps, 2 * steps[-1] - steps[-2]]
    image = axes[0, 0].pcolormesh(places, places, heat, cmap="RdBu_r", vmin=-1, vmax=1)
    figure.colorbar(image, ax=axes[0, 0], shrink=0.85)
    for family in families:
        change = describe(config, family)["transition"]
        axes[0, 0].axvline(change, color="black", lw=0.8, ls=":")
    axes[0, 0].set(title="Spearman of two steps (dotted: clear phases change)", ylabel="step")
    axes[0, 0].set_aspect("equal")
    _draw_quality(axes[:, 1], config, families, PALETTE[0], "mean over seeds")
    for k, color in zip((1, 2, 3), PALETTE, strict=False):
        recalls = np.mean([recall(*pair, k) for pair in losses], axis=0)
        axes[1, 0].plot(steps, recalls, color=color, label=f"k = {k}")
    axes[1, 0].set(title="recall@k, share of seeds", ylim=(-0.05, 1.05))
    axes[1, 0].legend(frameon=False)
    for axis in axes[:, 0]:
        axis.set(xlabel="steps after growing")
    figure.suptitle("{kind}, {schedule} learning rate".format(**families[0].settings))
    return figure


def _draw_scatter(config: Config, families: list[Family]) -> Any:
    """Draws figure 5.2: the final loss against the one on growing and the one after k steps."""
    early = {"on growing": "initial", f"after {config.lag_steps} steps": "lag"}
    points = pd.concat(
        family.results.assign(lag=family.lag, initial=family.raw[0], final=family.final)
        for family in families
    )
    figure, axes = subplots(1, 2, 4.5, 3.8)
    for axis, (when, name) in zip(axes[0], early.items(), strict=True):
        style = {"ls": "", "marker": "o", "markersize": 4}
        draw_series(axis, points, name, "final", "source", each="seed", **style)
        mean = np.mean([describe(config, family)[f"{name}_spearman"] for family in families])
        axis.set(xlabel=f"loss {when}", title=f"mean Spearman {mean:.2f}")
    axes[0, 0].set(ylabel="final loss")
    axes[0, 0].legend(frameon=False, fontsize="x-small")
    figure.suptitle("{kind}, {schedule} learning rate".format(**families[0].settings))
    return figure


def _draw_contrast(config: Config, own: dict[tuple, list[Family]]) -> Any:
    """Draws rank correlation and relative regret under a constant and under a decaying rate."""
    kinds = list(dict.fromkeys(kind for kind, _ in own))
    figure, axes = subplots(2, len(kinds), 4.8, 3.2)
    for (kind, schedule), families in own.items():
        column, color = axes[:, kinds.index(kind)], PALETTE[schedule == "cosine"]
        _draw_quality(column, config, families, color, f"{kind}, {schedule} rate")
        column[0].legend(frameon=False)
    return figure


def _draw_stacking(fine: pd.DataFrame, workdir: Path) -> Any:
    """Draws the validation loss over all stages, strategy by strategy."""
    figure, ((axis,),) = subplots(1, 1, 6.4, 4)
    curves = files.read_histories(workdir, fine, ["id", "strategy"])
    draw_series(axis, curves, "step", "loss", "strategy", each="id", lw=1)
    axis.legend(frameon=False)
    axis.set(xlabel="step", title="validation loss")
    return figure
