"""The reports on growing: correlations, regrets, claims, and stacking in stages."""

import functools
from pathlib import Path

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.growing import figures
from lsa_jax.experiments.growing.downstream_report import downstream_claims, downstream_table
from lsa_jax.experiments.growing.families import (
    DOWNSTREAM,
    EARLY_SPEARMAN,
    Family,
    describe,
    make_families,
)
from lsa_jax.experiments.growing.measures import MOST_UNEXPLAINED
from lsa_jax.experiments.growing.noise_claims import noise_claims
from lsa_jax.experiments.growing.numbers import (
    GROWING,
    GROWING_STRATEGIES,
    GROWING_TRANSITION,
    STACKING_LOSS,
)
from lsa_jax.reporting.claims import cell, compare, every, not_run, spread, start_up_check
from lsa_jax.reporting.report import Claim, Report

# Fixed before anything was run: a mean rank correlation up to the first counts as uninformative,
# one from the second on as predictive, a mean relative regret up to the third as low.
UNINFORMATIVE = 0.3
PREDICTIVE = 0.7
LOW_REGRET = 0.25

# Networks that are grown for no more steps than this only show that they start.
START_UP_STEPS = 10

# The learning rate of the thesis' runs: its numbers are put beside no other.
_SCHEDULE_OF_THESIS = {"encoder": "constant", "decoder": "cosine"}

_SETTING = ["kind", "schedule"]

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


def _strategies(config: ml_collections.ConfigDict) -> dict[str, str]:
    names = ("oracle", f"LAG@{config.lag_steps}", "LAG@0", "last block on top")
    return dict(zip(GROWING_STRATEGIES, (*names, "random block on top"), strict=True))


def _cell(values: pd.Series) -> str:
    return cell(values, ".4f")


def number_table(numbers: pd.DataFrame) -> pd.DataFrame:
    """Returns the correlations of each network and schedule, over seeds."""
    rows = [
        dict(zip(_SETTING, setting, strict=True))
        | {heading: _cell(rows[name]) for name, heading in _NUMBERS.items()}
        for setting, rows in numbers.groupby(_SETTING, sort=False)
    ]
    return pd.DataFrame(rows)


def strategy_table(config: ml_collections.ConfigDict, numbers: pd.DataFrame) -> pd.DataFrame:
    """Returns what each strategy costs against the best operator: tables 5.1 and 5.2."""
    rows = []
    for setting, found in numbers.groupby(_SETTING, sort=False):
        for name, heading in _strategies(config).items():
            if f"regret {name}" in found:
                row = {"strategy": heading}
                row |= {h: _cell(found[f"{measure} {name}"]) for measure, h in _REGRETS.items()}
                rows.append(dict(zip(_SETTING, setting, strict=True)) | row)
    return pd.DataFrame(rows)


def operator_table(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns every operator's losses, best first, over seeds."""
    measured = {
        "initial_loss": "loss at step 0",
        "lag_loss": "loss at step k",
        "final_loss": "final",
    }
    keys = [*_SETTING, "index", "block_size", "source"]
    rows = []
    for setting, found in fine.groupby(keys, sort=False):
        row = dict(zip(keys, setting, strict=True)) | {"order": found["final_loss"].mean()}
        rows.append(row | {heading: _cell(found[name]) for name, heading in measured.items()})
    table = pd.DataFrame(rows).sort_values([*_SETTING, "order"], kind="stable")
    return table.drop(columns="order").rename(columns={"index": "i", "block_size": "b"})


def _rank_error(correlations: pd.Series, operators: pd.Series) -> float:
    """Returns the standard error of Spearman's correlation over so many operators.

    Fieller, Hartley and Pearson (1957): that of its inverse hyperbolic tangent has the square
    1.06 / (n - 3).
    """
    spare = max(float(operators.min()) - 3, 1.0)
    return float((1 - min(abs(correlations.mean()), 1.0) ** 2) * np.sqrt(1.06 / spare))


def _correlate(
    item: str, paper: str | float, values: pd.Series, operators: pd.Series, **options
) -> Claim:
    """Returns a claim on rank correlations: what stands in for test examples are operators."""
    claim = compare(item, paper, values, examples_error=_rank_error(values, operators), **options)
    claim = claim._replace(note=claim.note.replace("test examples", "operators"))
    return claim.within(-1.0, 1.0)


def setting_claims(
    config: ml_collections.ConfigDict, kind: str, schedule: str, found: pd.DataFrame
) -> list[Claim]:
    """Returns what the thesis says of growing beside one network and schedule, over seeds.

    That a loss on growing tells nothing, or a choice costs little, says something where an early
    loss does tell: else final losses may differ by their noise alone.
    """
    where, k = f"{kind}, {schedule} rate", config.lag_steps
    paper = GROWING[kind] if schedule == _SCHEDULE_OF_THESIS[kind] else None
    printed = paper.relative_regret if paper else {}
    early = found["lag_spearman"]
    same_k = paper is not None and paper.lag_steps == k
    left = found["relative_regret lag"]
    predicts = _correlate(
        f"Spearman of the loss after {k} steps with the final one ({where})",
        (paper and paper.early_spearman.get(k, "strong")) or "",
        early,
        found["operators"],
        above=PREDICTIVE,
    )
    unless = "" if predicts.status == "shown" else "no early loss is shown to be predictive"
    claims = [
        _correlate(
            f"Spearman of the loss on growing with the final one ({where})",
            (paper and (paper.initial_spearman or "not predictive")) or "",
            found["initial_spearman"],
            found["operators"],
            below=UNINFORMATIVE,
            unless=unless,
        ),
        predicts,
        compare(
            f"relative regret of LAG@{k} ({where})",
            printed["lag"] if same_k else (paper and "low") or "",
            left,
            below=LOW_REGRET,
            unless=unless,
        ),
        compare(
            f"relative regret of LAG@{k} minus that of LAG@0 ({where})",
            round(printed["lag"] - printed["lag_0"], 4) if same_k else (paper and "below 0") or "",
            left - found["relative_regret lag_0"],
            below=0.0,
            unless=unless,
        ),
        _transition_claim(
            where, (paper and GROWING_TRANSITION[kind]) or "", found["transition"], unless
        ),
    ]
    if "relative_regret stack_random" in found:
        item = f"share of seeds in which LAG@0 takes a random block on top ({where})"
        top, luck = found["picks_random_top"], 1 / float(found["operators"].min())
        share, statement = float(top.mean()), 1.0 if paper else ""
        claims.append(every(item, statement, top == 1, share, luck=luck, unless=unless))
    others = {} if paper is None else {s: n for s, n in paper.early_spearman.items() if s != k}
    return claims + [_early_claim(where, steps, others[steps], found) for steps in others]


def _early_claim(where: str, steps: int, printed: str | float, found: pd.DataFrame) -> Claim:
    """Returns the correlation after as many steps as the thesis has it, where they were taken."""
    item = f"Spearman of the loss after {steps} steps with the final one ({where})"
    early = found[f"{EARLY_SPEARMAN}{steps}"]
    if early.isna().all():
        return not_run(item, printed)
    return _correlate(item, printed, early, found["operators"], above=PREDICTIVE)


def _transition_claim(where: str, paper: str, changes: pd.Series, unless: str) -> Claim:
    """Returns where the phases change, which is shown if they clearly do in every seed.

    At which step they do depends on the network, the batches and the learning rate.
    """
    seen = changes.dropna()
    ours = f"in {len(seen)} of {len(changes)} seeds"
    ours += f", at {', '.join(f'{step:g}' for step in seen)}" if len(seen) else ""
    item = f"seeds in which the operators' order has two clear phases ({where})"
    return every(item, paper, changes.notna(), ours, unless=unless, spread=spread(seen))


def _checked(config: ml_collections.ConfigDict, claims: list[Claim]) -> list[Claim]:
    """Returns the claims of a sweep; none of one whose few steps only check that it starts."""
    steps = sum(config.stage_steps) if config.question == "stacking" else config.grow_steps
    return start_up_check(claims) if steps <= START_UP_STEPS else claims


def contrast_claims(numbers: pd.DataFrame) -> list[Claim]:
    """Returns how much more the loss on growing tells where the rate decays, by seed."""
    claims = []
    for kind, found in numbers.groupby("kind", sort=False):
        table = found.pivot(index="seed", columns="schedule", values="initial_spearman")
        if {"constant", "cosine"} <= set(table):
            more = table["cosine"] - table["constant"]
            item = "Spearman of the loss on growing with the final one, cosine minus constant rate"
            claims.append(compare(f"{item} ({kind})", "", more, above=0.0))
    return claims


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
    tables, claims = [], []
    if len(numbers):
        tables = [
            (f"Correlation with the final loss, k = {config.lag_steps}", number_table(numbers)),
            ("What each strategy costs", strategy_table(config, numbers)),
            ("Operators", operator_table(fine)),
        ]
        claims += noise_claims(fine)
        for (kind, schedule), found in numbers.groupby(_SETTING, sort=False):
            claims += setting_claims(config, kind, schedule, found)
            if found.filter(like=DOWNSTREAM).notna().any(axis=None):
                heading = f"Percent right ({kind}, {schedule} rate)"
                tables.append((heading, downstream_table(found, _strategies(config))))
                claims += downstream_claims(found, _strategies(config))
        claims += contrast_claims(numbers)
    note = (
        "Means over seeds ± their standard deviation. Every operator of a seed begins at the same "
        "shallow network and sees the same text in the same order. Fixed before the run: the final "
        f"loss is the mean over the last {config.final_share:.0%} of {config.grow_steps} steps; "
        f"early losses are averaged over {config.smooth_steps} centred steps, step 0 is not; "
        f"LAG@{config.lag_steps} decides by the mean of the last {config.lag_window} steps up to "
        f"it. Uninformative means a mean rank correlation of {UNINFORMATIVE} or less, predictive "
        f"one of {PREDICTIVE} or more, a low relative regret one of {LOW_REGRET} or less; all "
        "of an interval of 95 %, over seeds and operators, has to be there. "
        "Two phases are split by least squares on the self-correlation; they are clear, by a bound "
        f"of ours, where they leave at most {MOST_UNEXPLAINED:g} of its variance. "
        "The thesis' numbers are of BERT-Base (encoder) and UL2 with 1.1 billion parameters "
        "(decoder), 30 operators and one run of each."
    )
    return Report(
        title=config.title,
        tables=tables,
        claims=_checked(config, claims),
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


def stacking_claims(fine: pd.DataFrame) -> list[Claim]:
    """Returns by how much adaptive stacking ends lower than last stacking, by seed."""
    claims = []
    paper = round(STACKING_LOSS["last"] - STACKING_LOSS["adaptive"], 4)
    for (kind, schedule), found in fine.groupby(_SETTING, sort=False):
        table = found.pivot(index="seed", columns="strategy", values="final_loss")
        if {"last", "adaptive"} <= set(table):
            less = table["last"] - table["adaptive"]
            item = f"final loss of last minus that of adaptive stacking ({kind}, {schedule} rate)"
            claims.append(compare(item, paper, less, above=0.0))
    return claims


def _stacking_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    tables = []
    if len(fine):
        rows = [
            dict(zip([*_SETTING, "strategy"], setting, strict=True))
            | {
                "thesis": STACKING_LOSS[setting[-1]],
                "final validation loss": _cell(found["final_loss"]),
                "steps, all candidates'": found["steps_spent"].max(),
            }
            for setting, found in fine.groupby([*_SETTING, "strategy"], sort=False)
        ]
        shown = fine[[*_SETTING, "seed", "strategy", "chosen"]]
        tables = [("Growing in stages", pd.DataFrame(rows)), ("What was chosen", shown)]
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
        claims=_checked(config, stacking_claims(fine)) if len(fine) else [],
        figures={"stacking": functools.partial(figures.draw_stacking, fine, workdir)},
        notes=[note],
    )


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep, by its question."""
    report = _stacking_report if config.question == "stacking" else _operator_report
    return report(config, results, workdir)
