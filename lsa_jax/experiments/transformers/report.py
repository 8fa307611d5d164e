"""The reports on decision lists: what each of the four questions shows."""

import functools
from collections.abc import Callable
from pathlib import Path

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.transformers import figures
from lsa_jax.experiments.transformers.numbers import DECISION_LIST_CLAIMS
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import every, measured, not_run
from lsa_jax.reporting.report import Claim, Report

# A correlation of V with P counts as "picked up" from here up.
PICKED_UP = 0.9

_CASE = {"vocabulary_size": "L", "sequence_length": "n", "list_length": "M"}

_THEOREM_COLUMNS = {
    "epsilon": "epsilon",
    "seed": "seed",
    "delta": "delta",
    "c": "c",
    "eigenvalue": "lambda_max",
    "first_perfect": "steps to perfect",
    "bound": "bound on the steps",
    "start_accuracy": "accuracy at step 0",
    "ordered": "columns of W in list order",
    "value_distance": "largest distance of V from cP / epsilon",
    "least_slope_ratio": "least squared gradient while wrong / proof's",
}

_STEP_COLUMNS = {
    "columns_right": "columns with their largest entry at pi",
    "correlation": "correlation with P",
    "on_mean": "mean on P",
    "on_min": "least on P",
    "off_mean": "mean off P",
    "off_max": "largest off P",
    "uniform_attention_limit": "most that any V gets right at W = 0",
}


def _claim(
    name: str, holds: pd.Series, ours: str | float, *, unless: str = "", luck: float = 0.0
) -> Claim:
    """Compares what the thesis says with the runs; it is shown if it holds in every run."""
    return every(*DECISION_LIST_CLAIMS[name], holds, ours, unless=unless, luck=luck)


def _count(holds: pd.Series) -> str:
    return f"{int(holds.sum())} of {len(holds)}"


def theorem_claims(question: str, fine: pd.DataFrame, num_points: int) -> list[Claim]:
    """Returns what theorem 4.3 or 4.4 says beside what its descents show.

    Args:
        question: "value_fixed" or "value_near".
        fine: the points that did not fail.
        num_points: of the sweep; a theorem is shown when all of them are fine.
    """
    found = fine.reindex(columns=[*_THEOREM_COLUMNS, "largest_rise"])
    # A sweep in which no run was perfect has a column of None.
    found = found.assign(first_perfect=found["first_perfect"].astype(float))
    ratio = found["first_perfect"] / found["bound"]
    within = (found["first_perfect"] <= found["bound"]).reindex(range(num_points), fill_value=False)
    within = within if len(found) else within[:0]
    ours = f"{_count(within)}; {found['first_perfect'].max():g} steps at most, "
    ours += f"{ratio.max():.1g} of the bound at most"
    theorem = "theorem4_3" if question == "value_fixed" else "theorem4_4"
    falls, is_large = found["largest_rise"] <= 0, found["least_slope_ratio"] > 1
    # A descent that gets nowhere may well do so as the proofs say.
    unless = "" if within.all() else "not every run is perfect within the bound"
    least = f"{found['least_slope_ratio'].min():.3g} at least"
    claims = [
        _claim(theorem, within, ours),
        _claim("loss_falls", falls, _count(falls), unless=unless),
        _claim("gradient", is_large, least, unless=unless),
    ]
    if question == "value_fixed":
        ordered = found["ordered"]
        share = f"{ordered.min():.4g}"
        claims.append(_claim("column_order", ordered == 1, share, unless=unless))
    else:
        distance = found["value_distance"]
        near = distance <= 1
        most = f"{distance.max():.4g} at most"
        claims.append(_claim("lemma4_1", near, most, unless=unless))
    return claims


def _paths(results: pd.DataFrame, workdir: Path, columns: list[str]) -> pd.DataFrame:
    """Returns one row a step, or evaluation, of every run: its settings and measures."""
    parts = []
    for result in results.to_dict("records"):
        rows = pd.DataFrame(files.read_metrics(workdir, result["id"]))
        for place, name in enumerate(["id", *columns]):
            rows.insert(place, name, result[name])
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def _theorem_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    columns = [name for name in (*_CASE, "epsilon", "seed") if name in results]
    paths = _paths(fine, workdir, columns) if len(fine) else pd.DataFrame()
    shown = {n: h for n, h in {**_CASE, **_THEOREM_COLUMNS}.items() if n in fine}
    table = fine[list(shown)].rename(columns=shown)
    for heading in table.columns.difference([*_CASE.values(), "seed", "steps to perfect"]):
        table[heading] = table[heading].map("{:.4g}".format)
    note = (
        "Every set of n tokens is in the loss, which is the population's; arithmetic is float64. "
        "A token is right where its label alone has the largest logit, by more than rounding. "
        "lambda_max is the largest eigenvalue of the Hessian on the path, by Lanczos at every step "
        "and half-way to the next, and eta = 1 / lambda_max on all of it."
    )
    return Report(
        title=config.title,
        tables=[("Steps to perfect classification", table)],
        claims=theorem_claims(config.question, fine, len(results)),
        figures={"decision_lists": functools.partial(figures.draw_paths, fine, paths)},
        extra_tables={"paths": paths},
        notes=[note],
    )


def step_claims(results: pd.DataFrame) -> list[Claim]:
    """Returns what figure 4.1 is said to show beside what the exact and sampled steps show."""
    fine = results[results["status"] == "ok"].reindex(
        columns=["gradient", "num_sequences", *_STEP_COLUMNS]
    )
    exact = fine[fine["gradient"] == "exact"]
    sampled = fine[fine["gradient"] == "sampled"]
    largest = sampled[sampled["num_sequences"] == sampled["num_sequences"].max()]
    claims = []
    for name, rows in (("exact", exact), ("sampled", largest)):
        columns, correlation = rows["columns_right"], rows["correlation"]
        share = f"{columns.min():.4g} of the columns"
        claims.append(_claim(f"{name}_columns", columns == 1, share))
        mean = f"{correlation.mean():.4f}"
        claims.append(_claim(f"{name}_correlation", correlation >= PICKED_UP, mean))
    limit = sampled["uniform_attention_limit"].dropna()
    # That V is not enough says something where it has what it can have.
    unless = "" if claims[0].status == "shown" else "V does not show P"
    most = f"{limit.max():.3f} at most"
    return [*claims, _claim("attention_needed", limit < 1, most, unless=unless)]


def _step_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    del workdir
    fine = results[results["status"] == "ok"]
    shown = {n: h for n, h in _STEP_COLUMNS.items() if n in fine}
    fine = fine.assign(sequences=fine["gradient"].where(fine["gradient"] == "exact"))
    if "num_sequences" in fine:
        counts = fine["num_sequences"].map("{:.0f}".format)
        fine = fine.assign(sequences=fine["sequences"].fillna(counts))
    rows = fine.groupby("sequences", sort=False)[list(shown)]
    table = rows.mean().map(lambda value: f"{value:.4f}" if np.isfinite(value) else "")
    spread = rows.std().map(lambda value: f" ± {value:.2g}" if np.isfinite(value) else "")
    table = (table + spread).rename(columns=shown).reset_index()
    note = (
        "Means over seeds ± their standard deviation; a seed draws V_0 and the sequences. The "
        "thesis shows a picture without numbers; its index i mod (L + 1) is no permutation of L "
        "tokens, so indices are modulo L here."
    )
    return Report(
        title=config.title,
        tables=[("V after one step", table)],
        claims=step_claims(results),
        figures={"value_step": functools.partial(figures.draw_step, config, fine)},
        notes=[note],
    )


def training_claims(fine: pd.DataFrame) -> list[Claim]:
    """Returns what the thesis leaves open beside the share of runs that succeeded."""
    found = fine.reindex(columns=["value_scale", "randomness", "success"])
    near = found.loc[found["randomness"] == found["randomness"].min(), "success"]
    random = found.loc[found["randomness"] == 1, "success"]
    names = DECISION_LIST_CLAIMS["random_success"]
    count = _count(random == 1)
    open_question = measured(*names, count) if len(random) else not_run(*names)
    # Where random starts succeed as well, being near has nothing to do with it.
    luck = float((random == 1).mean()) if len(random) else 0.0
    return [_claim("near_success", near == 1, _count(near == 1), luck=luck), open_question]


def _median_step(steps: pd.Series) -> str:
    """Returns the median of the runs that were perfect at some evaluation; empty without any."""
    reached = steps.dropna().astype(float)
    return f"{reached.median():g}" if len(reached) else ""


def _training_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    fine = results[results["status"] == "ok"]
    columns = [*_CASE, "value_scale", "randomness", "seed"]
    curves = _paths(fine, workdir, columns) if len(fine) else pd.DataFrame()
    groups = fine.groupby([*_CASE, "value_scale", "randomness"]) if len(fine) else None
    table = pd.DataFrame()
    if groups is not None:
        table = pd.DataFrame(
            {
                "distance of V_0 from cP / c": groups["start_distance"].mean().round(3),
                "columns right at the start": groups["start_columns_right"].mean().round(3),
                "runs that succeed": groups["success"].apply(lambda s: _count(s == 1)),
                "steps to perfect": groups["first_perfect"].apply(_median_step),
                "accuracy at the end": groups["accuracy"].mean().round(4),
                "columns right at the end": groups["columns_right"].mean().round(3),
            }
        ).reset_index()
        table = table.rename(columns={**_CASE, "value_scale": "c", "randomness": "r"})
    note = (
        "V_0 = c ((1 - r) P + r U), the entries of U uniform on [-1, 1]; W_0 = 0. A run succeeds "
        f"where every token of every sequence is right after {config.steps} steps with eta = "
        f"{config.learning_rate:g}. Distance is the largest of an entry; steps are the median over "
        f"the runs that were perfect at an evaluation, every {config.eval_every} steps."
    )
    return Report(
        title=config.title,
        tables=[("Success by the start", table)],
        claims=training_claims(fine),
        figures={"value_random": functools.partial(figures.draw_training, fine)},
        extra_tables={"curves": curves},
        notes=[note],
    )


_REPORTS: dict[str, Callable[..., Report]] = {
    "value_fixed": _theorem_report,
    "value_near": _theorem_report,
    "value_step": _step_report,
    "value_random": _training_report,
}


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep, by its question."""
    return _REPORTS[config.question](config, results, workdir)
