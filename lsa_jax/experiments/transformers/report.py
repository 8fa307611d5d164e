"""The reports on decision lists: what each of the four questions shows."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.experiments.transformers import figures
from lsa_jax.experiments.transformers.claims import CASE, Config, make_claims, share_of_bound
from lsa_jax.experiments.transformers.settings import sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

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


def _paths(results: pd.DataFrame, workdir: Path, columns: list[str]) -> pd.DataFrame:
    """Returns one row a step, or evaluation, of every run: its settings and measures."""
    parts = []
    for result in results.to_dict("records"):
        rows = pd.DataFrame(files.read_metrics(workdir, result["id"]))
        for place, name in enumerate(["id", *columns]):
            rows.insert(place, name, result[name])
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def _theorem_parts(config: Config, fine: pd.DataFrame, workdir: Path) -> dict[str, Any]:
    columns = [name for name in (*CASE, "epsilon", "seed") if name in fine]
    paths = _paths(fine, workdir, columns)
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
    return {
        "tables": [("Steps to perfect classification", table)],
        "figures": {"decision_lists": functools.partial(figures.draw_paths, fine, paths)},
        "extra_tables": {"paths": paths},
        "notes": [note],
    }


def _step_parts(config: Config, fine: pd.DataFrame, workdir: Path) -> dict[str, Any]:
    del workdir
    shown = {n: h for n, h in _STEP_COLUMNS.items() if n in fine}
    fine = fine.assign(sequences=fine["gradient"].where(fine["gradient"] == "exact"))
    if "num_sequences" in fine:
        counts = fine["num_sequences"].map("{:.0f}".format)
        fine = fine.assign(sequences=fine["sequences"].fillna(counts))
    rows = fine.groupby("sequences", sort=False)[list(shown)]
    table = rows.agg(lambda values: mean_and_spread(values, ".4f", ".2g"))
    note = (
        "Means over seeds ± their standard deviation; a seed draws V_0 and the sequences. The "
        "thesis shows a picture without numbers; its index i mod (L + 1) is no permutation of L "
        "tokens, so indices are modulo L here."
    )
    return {
        "tables": [("V after one step", table.rename(columns=shown).reset_index())],
        "figures": {"value_step": functools.partial(figures.draw_step, config, fine)},
        "notes": [note],
    }


def _median_step(steps: pd.Series) -> str:
    """Returns the median of the runs that were perfect at some evaluation; empty without any."""
    reached = steps.dropna().astype(float)
    return f"{reached.median():g}" if len(reached) else ""


def _training_parts(config: Config, fine: pd.DataFrame, workdir: Path) -> dict[str, Any]:
    columns = [*CASE, "value_scale", "randomness"]
    curves, groups = _paths(fine, workdir, [*columns, "seed"]), fine.groupby(columns)
    table = pd.DataFrame(
        {
            "distance of V_0 from cP / c": groups["start_distance"].mean().round(3),
            "columns right at the start": groups["start_columns_right"].mean().round(3),
            "runs that succeed": groups["success"].agg(lambda s: f"{int(s.sum())} of {len(s)}"),
            "steps to perfect": groups["first_perfect"].apply(_median_step),
            "accuracy at the end": groups["accuracy"].mean().round(4),
            "columns right at the end": groups["columns_right"].mean().round(3),
        }
    ).reset_index()
    note = (
        "V_0 = c ((1 - r) P + r U), the entries of U uniform on [-1, 1]; W_0 = 0. A run succeeds "
        f"where every token of every sequence is right after {config.steps} steps with eta = "
        f"{config.learning_rate:g}. Distance is the largest of an entry; steps are the median over "
        f"the runs that were perfect at an evaluation, every {config.eval_every} steps. Random "
        "starts succeed less often by Fisher's exact test, of one side at 2.5 %; it counts a size "
        "and seed once, as a success where all c succeed."
    )
    named = {**CASE, "value_scale": "c", "randomness": "r"}
    return {
        "tables": [("Success by the start", table.rename(columns=named))],
        "figures": {"value_random": functools.partial(figures.draw_training, fine)},
        "extra_tables": {"curves": curves},
        "notes": [note],
    }


_PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "value_fixed": _theorem_parts,
    "value_near": _theorem_parts,
    "value_step": _step_parts,
    "value_random": _training_parts,
}


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep, by its question."""
    if "bound" in results:
        results = results.assign(share_of_bound=share_of_bound(results, config.max_steps))
    claims = decide_all(make_claims(config), Runs.of(sweep(config), results))
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    parts = _PARTS[config.question](config, fine, workdir)
    return Report(title=config.title, claims=claims, **parts)
