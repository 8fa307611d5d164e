"""The report on lemmas 1 to 3: the numbers that they bound, for growing k."""

import functools
import math
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.lsa.lemmas.claims import SAME_ORDER, make_claims
from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS
from lsa_jax.experiments.lsa.signal_scaling.fits import reached_from
from lsa_jax.experiments.lsa.tables import histories, with_settings
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs

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
    "all along; grad_b while w.w* >= C2 / log(k)^4 with C2 = {lemma3:g} (then while w.w* >= "
    "k^(-1/8)) and the error is {target:g} or more. Onset is w.w* where b starts to fall. The "
    "paper's statements are about k from some k0 on; lemma 3, and lemma 1 with the proof's H, are "
    "judged in the upper half of the k of the sweep{from_k}. An order is shown when the quantity "
    "over that order varies by less than a factor {same_order:g} (Theta), or when the 95 % "
    "interval of its exponent in k, fitted on logarithmic scales, is not above 0 (O) or not below "
    "0 (Omega)."
)


def _draw(table: pd.DataFrame) -> Any:
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
    results = with_settings(results, config, ["k"])
    done = results[results["status"] == "ok"]
    first = reached_from(done["k"], done["reached"]) if len(done) else None
    table = histories(done, workdir, ["k"])
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
        claims=decide_all(make_claims(), Runs.of(SETTINGS.sweep(config), results)),
        figures={"lemmas": functools.partial(_draw, table)},
        extra_tables={"trajectories": table},
        notes=[note],
    )
