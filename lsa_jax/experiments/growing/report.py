"""Tables and figures on growing: correlations, regrets, and stacking in stages."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.growing import families
from lsa_jax.experiments.growing.claims import (
    family_claims,
    noise_claims,
    stacking_claims,
    strategies,
)
from lsa_jax.experiments.growing.settings import sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, draw_series, subplots
from lsa_jax.reporting.report import Report, not_run
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config

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


_NOTE = (
    "Means over seeds ± their standard deviation. Every operator of a seed starts from the "
    "same shallow network and sees the same text in the same order. Fixed before the run: the "
    "final loss is the mean over the last {config.final_share:.0%} of {config.grow_steps} "
    "steps; early losses are means over {config.smooth_steps} centred steps, except step 0; "
    "LAG@{config.lag_steps} decides by the mean of the last {config.lag_window} steps up to it. "
    "Two phases are split by least squares on the self-correlation. The thesis' numbers are of "
    "BERT-Base (encoder) and UL2 with 1.1 billion parameters (decoder), 30 operators, one run each."
)
_STACKING_NOTE = (
    "Stages of {stages} steps, {config.layers} layers first "
    "and {config.added} more each time. Last stacking copies the last {config.added} layers "
    "on top; adaptive stacking takes the choice of LAG@{config.lag_steps}, whose steps are "
    "the first of the stage. Final is the mean over the last "
    "{config.final_share:.0%} of the last stage. The thesis' numbers are of BERT-Large."
)


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep, by its question."""
    stacking = config.question == "stacking"
    report = (_stacking_report if stacking else _operator_report)(config, runs, workdir)
    steps = sum(config.stage_steps) if stacking else config.grow_steps
    if steps > START_UP_STEPS:
        return report
    rows = not_run(decide_all(report.claims, runs), "a check that it starts")
    return report._replace(claims=rows)


def _operator_report(config: Config, runs: Runs, workdir: Path) -> Report:
    fine = runs.finished.reset_index(drop=True)
    seeds, note = families.make_families(config, fine, workdir), _NOTE.format(config=config)
    if not seeds:
        return Report(notes=[note])
    numbers = pd.DataFrame([families.describe(config, family) for family in seeds])
    costs = pd.concat([families.strategy_costs(config, family) for family in seeds])
    order = fine.groupby([*SETTING, *families.OPERATOR])["final_loss"].transform("mean")
    best_first = fine.assign(order=order).sort_values([*SETTING, "order"], kind="stable")
    # Claims are of families, and of single points for their noise.
    of_families = Runs.of(sweep(config), costs.merge(numbers, on=families.FAMILY))
    rows = decide_all(family_claims(config), of_families)
    # Operators stand in for the test examples of a correlation.
    rows = [row._replace(note=row.note.replace("test examples", "operators")) for row in rows]
    return Report(
        tables=[
            (
                f"Correlation with the final loss, k = {config.lag_steps}",
                table_of_means(numbers, SETTING, _NUMBERS),
            ),
            ("Costs of each strategy", strategy_table(config, costs)),
            ("Operators", table_of_means(best_first, [*SETTING, *families.OPERATOR], _LOSSES)),
        ],
        claims=rows + noise_claims(config),
        figures=_figures(config, seeds),
        extra_tables={"families": numbers, "strategies": costs},
        notes=[note],
    )


def _stacking_report(config: Config, runs: Runs, workdir: Path) -> Report:
    columns = {"final_loss": "final validation loss", "steps_spent": "steps, all candidates'"}
    fine = runs.finished
    table = table_of_means(fine, [*SETTING, "strategy"], columns)
    table.insert(3, "thesis", table["strategy"].map(_STACKING_LOSS))
    stages = ", ".join(map(str, config.stage_steps))
    return Report(
        tables=[
            ("Growing in stages", table),
            ("Chosen operators", fine.reindex(columns=[*SETTING, "seed", "strategy", "chosen"])),
        ],
        claims=stacking_claims(config),
        figures={"stacking": partial(_draw_stacking, fine, workdir)},
        notes=[_STACKING_NOTE.format(config=config, stages=stages)],
    )


def strategy_table(config: Config, costs: pd.DataFrame) -> pd.DataFrame:
    """Returns losses and regrets of each strategy: tables 5.1 and 5.2, and C.1 in percent."""
    names = strategies(config)
    tasks = costs.filter(like=families.DOWNSTREAM)
    percent = 100 * tasks.rename(columns=lambda name: name.removeprefix(families.DOWNSTREAM) + " %")
    columns = _REGRETS | {name: name for name in percent}
    table = table_of_means(costs.assign(**percent), [*SETTING, "strategy"], columns)
    for task, printed in DOWNSTREAM_ACCURACY.items():
        if f"{task} %" in percent:
            of = dict(zip(names, printed, strict=True))
            table[f"{task} %, thesis"] = table["strategy"].map(of)
    return table.replace({"strategy": names})


def _figures(config: Config, seeds: list[families.Family]) -> dict[str, partial]:
    """Returns the figures of each network and schedule."""
    own: dict[tuple, list[families.Family]] = {}
    for family in seeds:
        own.setdefault(tuple(family.settings.values())[:2], []).append(family)
    return {
        f"{name}_{kind}_{schedule}": partial(draw, config, found)
        for (kind, schedule), found in own.items()
        for name, draw in (("panels", _draw_panels), ("scatter", _draw_scatter))
    }


def _draw_panels(config: Config, seeds: list[families.Family]) -> Any:
    """Draws the four panels of figure 5.3 over the seeds of one network and schedule."""
    figure, ((heat, spearman), (recalls, regrets)) = subplots(2, 2, 4.5, 3.8)
    inside = seeds[0].steps <= config.dense_steps
    steps, losses = seeds[0].steps[inside], [(f.smoothed[inside], f.final) for f in seeds]
    mean = np.mean([families.self_correlation(rows) for rows, _ in losses], axis=0)
    places = [*steps, 2 * steps[-1] - steps[-2]]
    image = heat.pcolormesh(places, places, mean, cmap="RdBu_r", vmin=-1, vmax=1)
    figure.colorbar(image, ax=heat, shrink=0.85)
    for family in seeds:
        heat.axvline(families.describe(config, family)["transition"], color="black", lw=0.8, ls=":")
    heat.set(title="Spearman of two steps (dotted: clear phases change)", ylabel="step")
    heat.set_aspect("equal")
    heat.grid(visible=False)
    for k, color in zip((1, 2, 3), PALETTE, strict=False):
        found = np.mean([families.recall(*pair, k) for pair in losses], axis=0)
        recalls.plot(steps, found, color=color, label=f"k = {k}")
    recalls.set(title="recall@k, share of seeds", ylim=(-0.05, 1.05))
    recalls.legend(frameon=False)
    of_best = [families.relative_regret(final)[rows.argmin(axis=1)] for rows, final in losses]
    correlations = [families.rank_correlations(*pair) for pair in losses]
    for axis, title, curves, least in (
        (spearman, "Spearman with the final loss", correlations, -1),
        (regrets, "relative regret", of_best, 0),
    ):
        at = pd.Series(np.tile(steps, len(seeds)))
        draw_mean(axis, pd.Series(np.concatenate(curves)), at, color=PALETTE[0])
        axis.plot(steps, np.transpose(curves), color=PALETTE[0], lw=0.4, alpha=0.4)
        axis.set(title=title, ylim=(least - 0.05, 1.05))
    for axis in (heat, spearman, recalls, regrets):
        axis.set(xlabel="steps after growing")
    figure.suptitle("{kind}, {schedule} learning rate".format(**seeds[0].settings))
    return figure


def _draw_scatter(config: Config, seeds: list[families.Family]) -> Any:
    """Draws figure 5.2: the final loss against the one on growing and the one after k steps."""
    early = {"on growing": "initial", f"after {config.lag_steps} steps": "lag"}
    points = pd.concat(
        family.results.assign(lag=family.lag, initial=family.raw[0], final=family.final)
        for family in seeds
    )
    figure, axes = subplots(1, 2, 4.5, 3.8)
    for axis, (when, name) in zip(axes[0], early.items(), strict=True):
        style = {"ls": "", "marker": "o", "markersize": 4}
        draw_series(axis, points, name, "final", "source", each="seed", **style)
        mean = np.mean([families.describe(config, family)[f"{name}_spearman"] for family in seeds])
        axis.set(xlabel=f"loss {when}", title=f"mean Spearman {mean:.2f}")
    axes[0, 0].set(ylabel="final loss")
    axes[0, 0].legend(frameon=False, fontsize="x-small")
    figure.suptitle("{kind}, {schedule} learning rate".format(**seeds[0].settings))
    return figure


def _draw_stacking(fine: pd.DataFrame, workdir: Path) -> Any:
    """Draws the validation loss over all stages, strategy by strategy."""
    figure, ((axis,),) = subplots(1, 1, 6.4, 4)
    curves = files.read_histories(workdir, fine, ["id", "strategy"])
    draw_series(axis, curves, "step", "loss", "strategy", each="id", lw=1)
    axis.legend(frameon=False)
    axis.set(xlabel="step", title="validation loss")
    return figure
