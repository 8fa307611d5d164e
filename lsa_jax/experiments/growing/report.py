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
    downstream_claims,
    family_claims,
    noise_claims,
    stacking_claims,
    strategies,
)
from lsa_jax.experiments.growing.families import (
    DOWNSTREAM,
    MOST_UNEXPLAINED,
    NUM_ITEMS,
    Family,
    describe,
    make_families,
    rank_correlations,
    recall,
    relative_regrets,
    self_correlation,
)
from lsa_jax.experiments.growing.settings import sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.report import Report, Row, not_run
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

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
_COLORS = {"copy": PALETTE[0], "random": PALETTE[1], "constant": PALETTE[0], "cosine": PALETTE[1]}
_COLORS |= {"last": PALETTE[1], "adaptive": PALETTE[0]}
_MARKERS = "os^Dv*P"


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
    numbers = pd.DataFrame([describe(config, family) for family in families])
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
    if numbers.empty:
        return {"tables": [], "claims": [], "figures": {}, "notes": [note]}
    curves = [
        pd.DataFrame(
            {"kind": family.kind, "schedule": family.schedule, "seed": family.seed}
            | operator._asdict()
            | {"step": family.steps, "loss": family.raw[:, i], "smoothed": family.smoothed[:, i]}
        )
        for family in families
        for i, operator in enumerate(family.operators)
    ]
    tables = [
        (f"Correlation with the final loss, k = {config.lag_steps}", number_table(numbers)),
        ("Costs of each strategy", strategy_table(config, numbers)),
        ("Operators", operator_table(fine)),
    ]
    for (kind, schedule), found in numbers.groupby(SETTING, sort=False):
        if found.filter(like=DOWNSTREAM).notna().any(axis=None):
            heading = f"Percent right ({kind}, {schedule} rate)"
            tables.append((heading, downstream_table(config, found)))
    return {
        "tables": tables,
        "claims": _decided(config, results, numbers),
        "figures": _figures(config, families),
        "extra_tables": {"families": numbers, "curves": pd.concat(curves, ignore_index=True)},
        "notes": [note],
    }


def _decided(config: Config, results: pd.DataFrame, numbers: pd.DataFrame) -> list[Row]:
    """Decides the claims on operators: of families, and of single points for their noise."""
    families, points = (Runs.of(sweep(config), table) for table in (numbers, results))
    rows = decide_all(family_claims(config), families)
    # Operators stand in for the test examples of a correlation.
    rows = [row._replace(note=row.note.replace("test examples", "operators")) for row in rows]
    rows += decide_all(noise_claims(config), points)
    return rows + decide_all(downstream_claims(config), families)


def _stacking_parts(
    config: Config, fine: pd.DataFrame, results: pd.DataFrame, workdir: Path
) -> dict[str, Any]:
    keys = [*SETTING, "strategy"]
    table = _means(fine, keys, {"final_loss": "final validation loss"})
    table.insert(3, "thesis", table["strategy"].map(_STACKING_LOSS))
    steps = fine.groupby(keys, sort=False)["steps_spent"].max().to_numpy()
    chosen = fine[[*SETTING, "seed", "strategy", "chosen"]]
    note = (
        f"Stages of {', '.join(map(str, config.stage_steps))} steps, {config.layers} layers first "
        f"and {config.added} more each time. Last stacking copies the last {config.added} layers "
        f"on top; adaptive stacking takes the choice of LAG@{config.lag_steps}, whose steps are "
        "the first of the stage. Final is the mean over the last "
        f"{config.final_share:.0%} of the last stage. The thesis' numbers are of BERT-Large."
    )
    return {
        "tables": [
            ("Growing in stages", table.assign(**{"steps, all candidates'": steps})),
            ("Chosen operators", chosen),
        ],
        "claims": decide_all(stacking_claims(config), Runs.of(sweep(config), results)),
        "figures": {"stacking": partial(_draw_stacking, fine, workdir)},
        "notes": [note],
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


def strategy_table(config: Config, numbers: pd.DataFrame) -> pd.DataFrame:
    """Returns the costs of each strategy against the best operator: tables 5.1 and 5.2."""
    rows = []
    for setting, found in numbers.groupby(SETTING, sort=False):
        for name, heading in strategies(config).items():
            if f"regret {name}" in found:
                row = dict(zip(SETTING, setting, strict=True)) | {"strategy": heading}
                row |= {h: _cell(found[f"{measure} {name}"]) for measure, h in _REGRETS.items()}
                rows.append(row)
    return pd.DataFrame(rows)


def operator_table(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns every operator's losses, best first, over seeds."""
    keys = [*SETTING, "index", "block_size", "source"]
    order = fine.groupby(keys, sort=False)["final_loss"].mean().to_numpy()
    table = _means(fine, keys, _LOSSES).assign(order=order)
    table = table.sort_values([*SETTING, "order"], kind="stable").drop(columns="order")
    return table.rename(columns={"index": "i", "block_size": "b"})


def downstream_table(config: Config, numbers: pd.DataFrame) -> pd.DataFrame:
    """Returns percent right by strategy, and the thesis' numbers where it has the task."""
    tasks = [name.removeprefix(NUM_ITEMS) for name in numbers if name.startswith(NUM_ITEMS)]
    rows = []
    for place, (strategy, heading) in enumerate(strategies(config).items()):
        rows.append({"strategy": heading})
        for task in tasks:
            if f"{DOWNSTREAM}{task} {strategy}" not in numbers:
                continue
            if task in DOWNSTREAM_ACCURACY:
                rows[-1][f"{task}, thesis"] = f"{DOWNSTREAM_ACCURACY[task][place]:g}"
            percent = 100 * numbers[f"{DOWNSTREAM}{task} {strategy}"]
            rows[-1][f"{task} %"] = mean_and_spread(percent, ".2f")
    return pd.DataFrame(rows)


def _figures(config: Config, families: list[Family]) -> dict[str, partial]:
    """Returns the figures of each network and schedule, and of both schedules where there are."""
    settings = dict.fromkeys((family.kind, family.schedule) for family in families)
    drawn = {}
    for kind, schedule in settings:
        own = [f for f in families if (f.kind, f.schedule) == (kind, schedule)]
        drawn[f"panels_{kind}_{schedule}"] = partial(_draw_panels, config, own)
        drawn[f"scatter_{kind}_{schedule}"] = partial(_draw_scatter, config, own)
    if len({schedule for _, schedule in settings}) == 2:
        drawn["contrast"] = partial(_draw_contrast, config, families)
    return drawn


def _dense(config: Config, families: list[Family]) -> tuple[np.ndarray, list[tuple]]:
    """Returns the closely watched steps; by family its smoothed losses there, and final ones."""
    inside = families[0].steps <= config.dense_steps
    return families[0].steps[inside], [(one.smoothed[inside], one.final) for one in families]


def _draw_quality(
    axes: Any, config: Config, families: list[Family], color: str, **style: Any
) -> None:
    """Draws rank correlations with the final loss, and relative regrets, in bands over seeds."""
    steps, losses = _dense(config, families)
    places = pd.Series(np.tile(steps, len(families)))
    measures = {
        rank_correlations: "Spearman with the final loss",
        relative_regrets: "relative regret",
    }
    for axis, (measure, title) in zip(axes, measures.items(), strict=True):
        curves = [measure(*pair) for pair in losses]
        draw_mean(axis, pd.Series(np.concatenate(curves)), places, color=color, **style)
        axis.plot(steps, np.transpose(curves), color=color, lw=0.4, alpha=0.4)
        axis.set(title=title, ylim=(-1.05 if measure is rank_correlations else -0.05, 1.05))
        axis.set(xlabel="steps after growing")
    axes[0].axhline(0, color="black", lw=0.6)


def _draw_panels(config: Config, families: list[Family]) -> Any:
    """Draws the four panels of figure 5.3 over the seeds of one network and schedule."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7.6), layout="constrained")
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
    _draw_quality(axes[:, 1], config, families, PALETTE[0])
    for k, color in zip((1, 2, 3), (PALETTE[0], PALETTE[2], PALETTE[1]), strict=True):
        recalls = np.mean([recall(*pair, k) for pair in losses], axis=0)
        axes[1, 0].plot(steps, recalls, color=color, label=f"k = {k}")
    axes[1, 0].set(title="recall@k, share of seeds", ylim=(-0.05, 1.05))
    axes[1, 0].legend(frameon=False)
    for axis in axes[:, 0]:
        axis.set(xlabel="steps after growing")
    tidy(*axes.flat[1:])
    figure.suptitle(f"{families[0].kind}, {families[0].schedule} learning rate")
    return figure


def _draw_scatter(config: Config, families: list[Family]) -> Any:
    """Draws figure 5.2: the final loss against the one on growing and the one after k steps."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for place, family in enumerate(families):
        sources = np.array([operator.source for operator in family.operators])
        for source in ("copy", "random"):
            own, style = sources == source, {"color": _COLORS[source]}
            style |= {"marker": _MARKERS[place % len(_MARKERS)]}
            style |= {"label": f"{source}, seed {family.seed}"}
            axes[0].scatter(family.raw[0][own], family.final[own], 18, **style)
            axes[1].scatter(family.lag[own], family.final[own], 18, **style)
    numbers = pd.DataFrame([describe(config, family) for family in families])
    names = {"initial_spearman": "on growing", "lag_spearman": f"after {config.lag_steps} steps"}
    for axis, (name, when) in zip(axes, names.items(), strict=True):
        axis.set(xlabel=f"loss {when}", title=f"mean Spearman {numbers[name].mean():.2f}")
    axes[0].set(ylabel="final loss")
    axes[0].legend(frameon=False, fontsize="x-small")
    tidy(*axes)
    figure.suptitle(f"{families[0].kind}, {families[0].schedule} learning rate")
    return figure


def _draw_contrast(config: Config, families: list[Family]) -> Any:
    """Draws rank correlation and relative regret under a constant and under a decaying rate."""
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(family.kind for family in families))
    size = {"figsize": (4.8 * len(kinds), 6.4), "squeeze": False}
    figure, axes = plt.subplots(2, len(kinds), layout="constrained", **size)
    for column, kind in zip(axes.T, kinds, strict=True):
        for schedule in ("constant", "cosine"):
            own = [f for f in families if (f.kind, f.schedule) == (kind, schedule)]
            if own:
                label = f"{kind}, {schedule} rate"
                _draw_quality(column, config, own, _COLORS[schedule], label=label)
        column[0].legend(frameon=False)
    tidy(*axes.flat)
    return figure


def _draw_stacking(fine: pd.DataFrame, workdir: Path) -> Any:
    """Draws the validation loss over all stages, strategy by strategy."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
    curves = files.read_histories(workdir, fine, ["id", "strategy"])
    labels = {name: f"{name} stacking" for name in curves["strategy"].unique()}
    for (_, strategy), curve in curves.groupby(["id", "strategy"], sort=False):
        style = {"color": _COLORS[strategy], "lw": 1, "label": labels.pop(strategy, None)}
        axis.plot(curve["step"], curve["loss"], **style)
    axis.legend(frameon=False)
    axis.set(xlabel="step", title="validation loss")
    tidy(axis)
    return figure
