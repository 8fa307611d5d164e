"""The reports on decision lists: what each of the four questions shows."""

import functools
from collections.abc import Callable
from pathlib import Path

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.transformers import figures
from lsa_jax.experiments.transformers.claims import CASE, make_claims, share_of_bound
from lsa_jax.experiments.transformers.settings import sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.evidence import decide_all
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs

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


def _count(holds: pd.Series) -> str:
    return f"{int(holds.sum())} of {len(holds)}"


def _paths(results: pd.DataFrame, workdir: Path, columns: list[str]) -> pd.DataFrame:
    """Returns one row a step, or evaluation, of every run: its settings and measures."""
    parts = []
    for result in results.to_dict("records"):
        rows = pd.DataFrame(files.read_metrics(workdir, result["id"]))
        for place, name in enumerate(["id", *columns]):
            rows.insert(place, name, result[name])
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def _claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Row]:
    return decide_all(make_claims(config), Runs.of(sweep(config), results))


def _theorem_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    runs = results.assign(share_of_bound=share_of_bound(results, config.max_steps))
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    columns = [name for name in (*CASE, "epsilon", "seed") if name in results]
    paths = _paths(fine, workdir, columns) if len(fine) else pd.DataFrame()
    shown = {n: h for n, h in {**CASE, **_THEOREM_COLUMNS}.items() if n in fine}
    table = fine[list(shown)].rename(columns=shown)
    for heading in table.columns.difference([*CASE.values(), "seed", "steps to perfect"]):
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
        claims=_claims(config, runs),
        figures={"decision_lists": functools.partial(figures.draw_paths, fine, paths)},
        extra_tables={"paths": paths},
        notes=[note],
    )


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
        claims=_claims(config, results),
        figures={"value_step": functools.partial(figures.draw_step, config, fine)},
        notes=[note],
    )


def _median_step(steps: pd.Series) -> str:
    """Returns the median of the runs that were perfect at some evaluation; empty without any."""
    reached = steps.dropna().astype(float)
    return f"{reached.median():g}" if len(reached) else ""


def _training_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    fine = results[results["status"] == "ok"]
    columns = [*CASE, "value_scale", "randomness", "seed"]
    curves = _paths(fine, workdir, columns) if len(fine) else pd.DataFrame()
    groups = fine.groupby([*CASE, "value_scale", "randomness"]) if len(fine) else None
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
        table = table.rename(columns={**CASE, "value_scale": "c", "randomness": "r"})
    note = (
        "V_0 = c ((1 - r) P + r U), the entries of U uniform on [-1, 1]; W_0 = 0. A run succeeds "
        f"where every token of every sequence is right after {config.steps} steps with eta = "
        f"{config.learning_rate:g}. Distance is the largest of an entry; steps are the median over "
        f"the runs that were perfect at an evaluation, every {config.eval_every} steps. Starts are "
        "told apart by Fisher's exact test of one side at 2.5 %, in which a size and seed count "
        "once and succeed where they do at every c; a claim's note has the c at which the test "
        "tells them apart with the runs of that c alone."
    )
    return Report(
        title=config.title,
        tables=[("Success by the start", table)],
        claims=_claims(config, results),
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
