"""The report on lemmas 1 to 3: the numbers that they bound, for growing k."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.lemmas.settings import sweep
from lsa_jax.experiments.lsa.signal_scaling.fits import (
    LEAST_POINTS,
    describe,
    fit_power_law,
    reached_from,
)
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide, every, measured, not_run
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.doubts import doubted, lost_runs
from lsa_jax.reporting.report import Claim, Report

# "Theta(1)" counts as shown when a quantity varies by less than this factor while k grows.
SAME_ORDER = 2.0

# Sizes of -grad.w*, 1/2 at the start, for which the report names the first k.
PROOF_LEAST = (0.0, 0.1, 0.25)

# Numbers of the population are exact: an exponent this near 0 is 0.
EXACT = 1e-9
_FEW = "it would take more k"

_SHOWN = {
    "k": "k",
    "reached": "error reached",
    "time": "time",
    "w_dot_wstar": "w.w* at the end",
    "lemma1_least": "1: least -grad.w*",
    "lemma1_most": "1: largest",
    "lemma1_proof_least": "1, H = 2 C2: least",
    "lemma1_proof_most": "1, H = 2 C2: largest",
    "lemma2_least": "2: least rate",
    "lemma2_ratio": "2: largest / log^3 k",
    "lemma3_least": "3: least grad_b",
    "lemma3_sketch_least": "3: w.w* >= k^(-1/8)",
    "onset_ratio": "onset x log^4 k",
    "bias_ratio": "k max b/(w.w*)",
}

_NOTE = (
    "Time is learning rate times steps, in the limit of small steps, until the error reaches "
    "{target:g}. Columns 1 to 3 belong to the lemmas: -grad.w* while |w.w*| <= H / log(k)^4 with "
    "H = {lemma1:g}, where the bias is still about 0 and it holds by construction, and with the "
    "H = 2 C2 of the proof, which lasts until lemma 3 sets in; rate = grad.w_perp / |w_perp|^2 "
    "all along; grad_b while w.w* >= C2 / log(k)^4 with C2 = {lemma3:g} (beside it: while w.w* >= "
    "k^(-1/8)) and the error is {target:g} or more. Onset is w.w* where b starts to fall. The "
    "paper's statements are about k from some k0 on; lemma 3, and lemma 1 with the proof's H, are "
    "judged in the upper half of the k of the sweep{from_k}. An order is shown when the quantity "
    "over that order varies by less than a factor {same_order:g} (Theta), or when the 95 % "
    "interval of its exponent in k, fitted on logarithmic scales, is not above 0 (O) or not below "
    "0 (Omega)."
)


class _Statement(NamedTuple):
    """A statement of a lemma and how the rows of all k tell whether it holds.

    Attributes:
        item: what is measured.
        paper: what the paper says of it.
        from_k0: whether it is only about k from some k0 on.
        judge: from item, paper, the rows and what speaks against them, the claim.
    """

    item: str
    paper: str
    from_k0: bool
    judge: Callable[..., Claim]


def _least(
    column: str, item: str, paper: str, rows: pd.DataFrame, unless: str, *, zero: bool = False
) -> Claim:
    values = rows[column]
    return every(item, paper, values >= 0 if zero else values > 0, values.min(), unless=unless)


def _spread(low: str, high: str, item: str, paper: str, rows: pd.DataFrame, unless: str) -> Claim:
    factor = float(rows[high].max() / rows[low].min()) if rows[low].min() else math.inf
    return every(item, paper, [0 < factor < SAME_ORDER], factor, unless=unless)


def _bound(column: str, item: str, paper: str, rows: pd.DataFrame, unless: str) -> Claim:
    values = rows[column]
    return every(item, paper, values.between(0, SAME_ORDER), values.max(), unless=unless)


def _exponent(
    column: str, sign: int, item: str, paper: str, rows: pd.DataFrame, unless: str
) -> Claim:
    """Fits a quantity's exponent in k; sign 1 where it must not be below 0, -1 where not above."""
    fit = fit_power_law(rows["k"], rows[column])
    if fit is None:
        return every(item, paper, [False], "no fit", unless=unless)
    low, high = sorted((sign * fit.low, sign * fit.high))
    status = decide(low, high, -EXACT, math.inf)
    note = unless or (_FEW if status == "undecided" else "")
    if note and status == "shown":
        status = "undecided"
    return Claim(item, paper, describe(fit), None, status, fit.low, fit.high, note)


_STATEMENTS = (
    _Statement(
        "lemma 1: least -grad.w* while w.w* is small",
        "above 0",
        False,
        functools.partial(_least, "lemma1_least"),
    ),
    _Statement(
        "lemma 1: largest over least -grad.w*, all k",
        "Theta(1)",
        False,
        functools.partial(_spread, "lemma1_least", "lemma1_most"),
    ),
    _Statement(
        "lemma 1, H = 2 C2: least -grad.w* while w.w* is small, upper half of the k",
        "above 0",
        True,
        functools.partial(_least, "lemma1_proof_least"),
    ),
    _Statement(
        "lemma 1, H = 2 C2: largest over least -grad.w*, upper half of the k",
        "Theta(1)",
        True,
        functools.partial(_spread, "lemma1_proof_least", "lemma1_proof_most"),
    ),
    _Statement(
        "lemma 2: least grad.w_perp / |w_perp|^2",
        "0 or more",
        False,
        functools.partial(_least, "lemma2_least", zero=True),
    ),
    _Statement(
        "lemma 2: exponent in k of the largest grad.w_perp / (|w_perp|^2 log(k)^3)",
        "O(1): at most 0",
        False,
        functools.partial(_exponent, "lemma2_ratio", -1),
    ),
    _Statement(
        "lemma 3: least grad_b while w.w* and the error are large, upper half of the k",
        "above 0",
        True,
        functools.partial(_least, "lemma3_least"),
    ),
    _Statement(
        "lemma 3: exponent in k of that least grad_b, upper half of the k",
        "Omega(1): at least 0",
        True,
        functools.partial(_exponent, "lemma3_least", 1),
    ),
    _Statement(
        "exponent in k of log(k)^4 w.w* where b starts to fall, upper half of the k",
        "O(1): at most 0",
        True,
        functools.partial(_exponent, "onset_ratio", -1),
    ),
    _Statement(
        "largest k b / (w.w*)", "at most Theta(1)", False, functools.partial(_bound, "bias_ratio")
    ),
)


def _upper_half(done: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of the upper half of the sizes, whatever happens there.

    "From some k0 on" names no k0; one chosen by what is to be shown would presuppose it.
    """
    sizes = np.sort(done["k"].unique())
    return done[done["k"].isin(sizes[len(sizes) // 2 :])]


def make_claims(results: pd.DataFrame, planned: Sequence[Mapping[str, object]] = ()) -> list[Claim]:
    """Returns the lemmas' statements beside what came out, from one row a k.

    They are about the way to a small error: a flow that does not get there shows none. They are
    about all k: what is left of them where some failed, or a few, show none.

    Args:
        results: those that failed too.
        planned: settings of the runs that the sweep asks for.
    """
    done = results[results["status"] == "ok"]
    lost, sizes = lost_runs(planned, done), done["k"].nunique() if len(done) else 0
    few = f"it would take {LEAST_POINTS} k" if 0 < sizes < LEAST_POINTS else ""
    learned = len(done) and bool(done.loc[done["k"].idxmax(), "reached"])
    unless = "" if learned else "the largest k does not reach the error"
    claims = [
        s.judge(s.item, s.paper, _upper_half(done) if s.from_k0 else done, unless)
        if len(done)
        else not_run(s.item, s.paper)
        for s in _STATEMENTS
    ] + _starts(done)
    return [doubted(claim, [lost, few]) for claim in claims]


def _starts(done: pd.DataFrame) -> list[Claim]:
    """Returns from which k on lemma 1 with the proof's H holds, by how far -grad.w* stays up."""
    claims = []
    for least in PROOF_LEAST:
        item = f"k from which on lemma 1, H = 2 C2, has -grad.w* above {least:g}"
        if done.empty:
            claims.append(not_run(item, "some k0"))
            continue
        first = reached_from(done["k"], done["lemma1_proof_least"] > least)
        claims.append(measured(item, "some k0", "none" if first is None else int(first)))
    return claims


def courses(results: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    """Returns one row a time of every k: k and the measures."""
    parts = []
    for result in results[results["status"] == "ok"].to_dict("records"):
        rows = pd.DataFrame(files.read_metrics(workdir, result["id"]))
        rows.insert(0, "k", result["k"])
        parts.append(rows)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"k": []})


def draw(table: pd.DataFrame) -> Any:
    """Draws the gradient's three components against w.w*, a line for each k."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    ks = sorted(table["k"].unique())
    for place, k in enumerate(ks):
        rows = table[table["k"] == k]
        color = plt.cm.viridis(place / max(len(ks) - 1, 1))
        label = f"k = {k}" if place in (0, len(ks) // 2, len(ks) - 1) else None
        log_k, c = math.log(k), rows["w_dot_wstar"]
        rate = rows["grad_w_perp"] / rows["w_perp_norm"]
        axes[0].plot(c * log_k**4, -rows["grad_dot_wstar"], color=color, label=label)
        axes[1].plot(c, rate / log_k**3, color=color)
        axes[2].plot(c, rows["grad_b"], color=color)
    titles = (
        ("w·w* log⁴k", "lemma 1: −grad·w*"),
        ("w·w*", "lemma 2: grad·w⊥ / (|w⊥|² log³k)"),
        ("w·w*", "lemma 3: derivative in b"),
    )
    for axis, (xlabel, title) in zip(axes, titles, strict=True):
        axis.set(xscale="log", xlabel=xlabel, title=title)
        axis.axhline(0, color="black", linewidth=0.6)
        tidy(axis)
    axes[1].set_yscale("log")
    axes[2].set_yscale("symlog", linthresh=0.1)
    if ks:
        axes[0].legend(frameon=False)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the lemmas' numbers for every k, the claims and the figure."""
    done = results[results["status"] == "ok"]
    if "k" not in done:  # a single point
        done, results = done.assign(k=config.k), results.assign(k=config.k)
    first = reached_from(done["k"], done["reached"]) if len(done) else None
    table = courses(results, workdir)
    shown = [name for name in _SHOWN if name in done]
    note = _NOTE.format(
        target=config.target_error,
        lemma1=config.lemma1_constant,
        lemma3=config.lemma3_constant,
        same_order=SAME_ORDER,
        from_k="" if first is None else f" (the error is reached from k = {first:g} on)",
    )
    return Report(
        title=config.title,
        tables=[("The gradient along its flow", done[shown].rename(columns=_SHOWN))],
        claims=make_claims(results, sweep(config)),
        figures={"lemmas": functools.partial(draw, table)},
        extra_tables={"trajectories": table},
        notes=[note],
    )
