"""The report on networks of small norm: those made by hand beside those that SGD finds."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.resnet.errors import errors_at, gaps, no_sample
from lsa_jax.experiments.resnet.numbers import BEST_SGD_ERROR, HAND_MADE_NORMS, SGD_WIDTHS
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import ONE_SEED, compare, not_run
from lsa_jax.reporting.curves import PALETTE, tidy
from lsa_jax.reporting.doubts import doubted
from lsa_jax.reporting.report import Claim, Report

# A norm is the paper's to within this factor: less than half of the way to its next one.
NEAR = 1.05

# "Well above" the norm made by hand is twice: more than the paper's "not comparable" asks for.
FAR = 2.0

# The paper's bound on the test error of a network of nearly minimal norm.
GENERALISES = 0.3


def least_norms(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Returns the least norm among the runs with at most this error, for each error that occurs.

    Args:
        runs: with `relative_norm` and `column`.
        column: the error that is meant.
    """
    ordered = runs.sort_values([column, "relative_norm"])[[column, "relative_norm"]]
    return ordered.assign(relative_norm=ordered["relative_norm"].cummin()).reset_index(drop=True)


def hand_claims(hand: pd.DataFrame, num_test: int) -> list[Claim]:
    """Returns the errors of networks made by hand that have the paper's norms, beside the paper's.

    Args:
        hand: those that were made; those that failed have neither norm nor error.
        num_test: test examples.
    """
    claims, norms = [], hand.get("relative_norm", pd.Series(dtype=float)).astype(float)
    for norm, error in HAND_MADE_NORMS:
        names = (f"error by hand, |W*|_F / sqrt(d) = {norm:g} to within 5 %", f"at most {error:g}")
        near = hand[norms.between(norm / NEAR, norm * NEAR)]
        errors = {place: pd.Series([found]) for place, found in near.get("test_error", {}).items()}
        failed = gaps([hand["test_error"]]) if len(hand) else ""
        options = {"num_test": num_test, "below": error, "unless": failed}
        claim = errors_at("some", names, errors, **options)
        # They are made, not drawn: more examples tell, more seeds do not.
        note = claim.note.replace("2 seeds or more and ", "").replace(ONE_SEED, "")
        claim = claim._replace(note=note)
        if norms.notna().any() and not errors:
            claim = Claim(*names, "no such norm", None, "undecided", note="none of that norm")
        claims.append(claim)
    return claims


def search_claims(
    config: ml_collections.ConfigDict, runs: pd.DataFrame, hand: list[Claim]
) -> list[Claim]:
    """Returns what SGD does not find: a small test error; a small training error and norm.

    A search that does not even fit the training examples says nothing, nor does one that does not
    get to the widths that the paper speaks of, or lacks some of its runs: less is found in less.
    What one seed finds refutes that it is not found.

    Args:
        config: of the sweep.
        runs: every candidate of every search, by width and seed.
        hand: from `hand_claims`; without the first of them there is no contrast.
    """
    d, seeds, (norm, error) = config.d, list(config.sweep.seed), HAND_MADE_NORMS[0]
    names = [("best test error by SGD, as of no small norm", f"above {GENERALISES}")]
    if d in BEST_SGD_ERROR:
        names.insert(0, ("best test error by SGD", f"none better than {BEST_SGD_ERROR[d]}"))
    item = f"least |W|_F / sqrt(d) by SGD with training error at most {error:g}"
    of_norm = (item, f"well above {norm:g}")
    if runs.empty:
        return [not_run(*both) for both in (*names, of_norm)]
    fitted = runs[runs["train_error"] <= error].groupby("seed")["relative_norm"].min()
    least, best = fitted.reindex(seeds), runs.groupby("seed")["test_error"].min().reindex(seeds)
    by_seed = {seed: best[[seed]] for seed in seeds}
    failed = _failed(config, runs)
    why = "not every seed fits the training examples" if least.isna().any() else _narrow(config)
    why = why or no_sample(best.dropna(), config.num_test)
    options = {"num_test": config.num_test, "chosen_of": len(runs), "unless": failed}
    bounds = [BEST_SGD_ERROR[d], GENERALISES] if d in BEST_SGD_ERROR else [GENERALISES]
    claims = [
        doubted(errors_at("every", both, by_seed, above=bound, **options), [why])
        for both, bound in zip(names, bounds, strict=True)
    ]
    if least.isna().all():
        return [*claims, Claim(*of_norm, "no such run", None, "undecided", note=failed or why)]
    if not hand or hand[0].status != "shown":
        why = why or f"no network of norm {norm:g} is shown to be there"
    claim = doubted(compare(*of_norm, least, above=FAR * norm, unless=failed), [why])
    if least.min() <= FAR * norm:
        return [*claims, claim._replace(status="not shown", note="")]
    return [*claims, doubted(claim, refuted=[no_sample(least.dropna(), config.num_test)])]


def _failed(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> str:
    """Says how many of the searches that were asked for are not there; empty if all are."""
    asked = len(config.sweep.width) * len(config.sweep.seed)
    lack = asked - len(runs[["width", "seed"]].drop_duplicates())
    return f"{lack} of {asked} searches failed or are not there" if lack > 0 else ""


def _narrow(config: ml_collections.ConfigDict) -> str:
    """Says that the paper's searches went to wider networks; empty where they did not."""
    widest, most = max(config.sweep.width), SGD_WIDTHS.get(config.d, 0)
    return f"m was searched to {widest:,} of {most:,}" if widest < most else ""


def _draw(d: int, hand: pd.DataFrame, runs: pd.DataFrame) -> Any:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    scale = d**0.5
    if len(hand):
        points = least_norms(hand, "test_error")
        axis.plot(
            points["test_error"],
            scale * points["relative_norm"],
            "o-",
            color=PALETTE[0],
            label="made by hand, test error",
        )
    for place, name in enumerate(("train", "test"), start=1):
        if len(runs):
            points = least_norms(runs, f"{name}_error")
            axis.step(
                points[f"{name}_error"].clip(lower=1e-3),
                scale * points["relative_norm"],
                where="post",
                color=PALETTE[place],
                label=f"least by SGD, {name} error",
            )
    axis.set(xscale="log", xlim=(0.004, 1.2), ylim=(0, None), xlabel="error")
    axis.set(ylabel="Frobenius norm")
    tidy(axis)
    if axis.lines:
        axis.legend(frameon=False)
    return figure


def _all_runs(searches: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    """Returns every candidate of every search that did not fail."""
    parts = [
        pd.DataFrame(files.read_metrics(workdir, point["id"])).assign(
            width=point["width"], seed=point["seed"]
        )
        for point in searches.to_dict("records")
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns norms and errors of both kinds, the claims and the figure."""
    columns = ["part", "relative_norm", "test_error"]
    whole = results.reindex(columns=list(dict.fromkeys([*results.columns, *columns])))
    fine = whole[whole["status"] == "ok"]
    hand, searches = (fine[fine["part"] == part] for part in ("construction", "search"))
    runs = _all_runs(searches, workdir)
    made = whole[whole["part"] == "construction"]
    of_hand, tables = hand_claims(made, config.num_test), []
    if len(hand):
        columns = ["width", "penalty", "relative_norm", "test_error"]
        tables.append(("Made by hand", hand[columns].rename(columns={"width": "m"})))
    if len(runs):
        columns = ["width", "learning_rate", "weight_decay", "train_error", "test_error"]
        best = runs.sort_values("test_error").groupby("width").head(3)
        shown = best.sort_values(["width", "test_error"])[[*columns, "relative_norm"]]
        tables.append(("Best by SGD in test error", shown.rename(columns={"width": "m"})))
    note = (
        f"d = {config.d}, N = {config.num_train}; relative_norm is |W|_F / sqrt(d), and an error "
        f"the mean of (F - y)^2, of tests on {config.num_test} fresh examples. The paper leaves "
        "initial weights, epochs and the loss's scale open: here N(0, "
        f"{config.init_std:g}^2), {config.epochs} epochs, half the squared error."
    )
    return Report(
        title=config.title,
        tables=tables,
        claims=of_hand + search_claims(config, runs, of_hand),
        figures={"minimal_norm": functools.partial(_draw, config.d, hand, runs)},
        extra_tables={"candidates": runs},
        notes=[note],
    )
