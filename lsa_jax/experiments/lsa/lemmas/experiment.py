"""The paper's lemmas on the population gradient, measured along the gradient's own flow.

Karp et al. (NeurIPS 2021), section 4, lemmas 1 to 3, with the conditions of thesis appendix B.1.3.
The gradient is computed without sampling (`signal.population`), so nothing here is random.

"Theta(1)" is a quantity that varies by less than a factor while k grows, "O(1)" one whose exponent
in k, fitted on logarithmic scales, is not above 0, and "Omega(1)" one whose exponent is not below
0. "From some k0 on" names no k0: such statements are decided in the upper half of the k of the
sweep, as a k0 chosen to fit the results would assume the conclusion.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal.population import flow_to_target, measure
from lsa_jax.experiments.lsa.signal_scaling.experiment import LEAST_POINTS, fit_power_law
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, enough, in_all
from lsa_jax.reporting.curves import shades, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import computed
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress


def _onset(course: pd.DataFrame) -> float:
    """Returns w.w* from where on b falls: at the last zero of its slope before the largest.

    It is NaN where b falls from the start.
    """
    slope, c = course["grad_b"].to_numpy(), course["w_dot_wstar"].to_numpy()
    rising = np.flatnonzero(slope[: slope.argmax()] < 0)
    if not len(rising):
        return math.nan
    last = rising[-1]
    return float(np.interp(0.0, slope[last : last + 2], c[last : last + 2]))


def check_lemmas(config: Config, course: pd.DataFrame) -> dict[str, float]:
    """Reduces a trajectory, a row of `signal.population.measure` a time, to the lemmas' numbers.

    Returns:
        `lemma1_least`, `lemma1_most`: range of -grad . w* while |w.w*| <= H / log(k)^4.
        `lemma1_proof_least`, `lemma1_proof_most`: likewise with the H of the proof, 2 C2.
        `lemma2_least`: least grad . w_perp / |w_perp|^2. `lemma2_ratio`: the largest, over
        log(k)^3. `lemma3_least`: least derivative in b while w.w* >= C2 / log(k)^4 and the error
        is at least the target. `lemma3_sketch_least`: the same while w.w* >= k^(-1/8).
        `onset_ratio`: w.w* where b starts to fall, times log(k)^4. `bias_ratio`: the largest
        b / (w.w*), times k.
    """
    log_k = math.log(config.k)
    c, descent, in_b = course["w_dot_wstar"], -course["grad_dot_wstar"], course["grad_b"]
    wrong = 1 - course["test_accuracy"] >= config.target_error
    early = descent[c.abs() <= config.lemma1_constant / log_k**4]
    # Thesis, p. 99: lemma 1 has to last until lemma 3 sets in, for which its H is 2 C2.
    until_late = descent[c.abs() <= 2 * config.lemma3_constant / log_k**4]
    rate = course["grad_w_perp"] / course["w_perp_norm"]
    found = {
        "lemma1_least": early.min(),
        "lemma1_most": early.max(),
        "lemma1_proof_least": until_late.min(),
        "lemma1_proof_most": until_late.max(),
        "lemma2_least": rate.min(),
        "lemma2_ratio": rate.max() / log_k**3,
        "lemma3_least": in_b[wrong & (c >= config.lemma3_constant / log_k**4)].min(),
        "lemma3_sketch_least": in_b[wrong & (c >= config.k ** (-1 / 8))].min(),
        "onset_ratio": _onset(course) * log_k**4,
        "bias_ratio": (course["b"] / c).max() * config.k,
    }
    return {name: float(value) for name, value in found.items()}


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Follows the population gradient's flow of one point and checks the lemmas along it."""
    ((_, _, config),) = group
    flow, sigma = flow_to_target(config)
    history = [
        {"time": time, **measure(state, sigma, config.k)}
        for time, state in zip(flow.times.tolist(), flow.states, strict=True)
    ]
    results = {
        "reached": flow.reached,
        "time": history[-1]["time"],
        "test_error": 1 - history[-1]["test_accuracy"],
        "w_dot_wstar": history[-1]["w_dot_wstar"],
        "b": history[-1]["b"],
    }
    return [Outcome(results | check_lemmas(config, pd.DataFrame(history)), history)]


# --- claims -------------------------------------------------------------------------------------

# "Theta(1)": a quantity that varies by less than this factor while k grows.
SAME_ORDER = 2.0
# Numbers of the population are exact: an exponent this near 0 is 0.
EXACT = 1e-9

_UPPER = ", upper half of the k"
_PROOF = "lemma 1, H = 2 C2: "


def make_claims(config: Config) -> list[Claim]:
    """Returns the lemmas' statements."""
    sizes = sorted(config.sweep.k)
    upper = {"k": tuple(sizes[len(sizes) // 2 :])}
    # Item, the paper's statement, statistic, ends of the range.
    # fmt: off
    table = [
        ("lemma 1: least -grad.w* while w.w* is small", "above 0",
         _least("lemma1_least"), 0.0, np.inf),
        ("lemma 1: largest over least -grad.w*, all k", "Theta(1)",
         _spread("lemma1_least", "lemma1_most"), 0.0, SAME_ORDER),
        (f"{_PROOF}least -grad.w* while w.w* is small{_UPPER}", "above 0",
         _least("lemma1_proof_least", **upper), 0.0, np.inf),
        (f"{_PROOF}largest over least -grad.w*{_UPPER}", "Theta(1)",
         _spread("lemma1_proof_least", "lemma1_proof_most", **upper), 0.0, SAME_ORDER),
        ("lemma 2: least grad.w_perp / |w_perp|^2", "0 or more",
         _least("lemma2_least"), -EXACT, np.inf),
        ("lemma 2: exponent in k of the largest grad.w_perp / (|w_perp|^2 log(k)^3)",
         "O(1): at most 0", _exponent("lemma2_ratio"), -np.inf, EXACT),
        (f"lemma 3: least grad_b while w.w* and the error are large{_UPPER}", "above 0",
         _least("lemma3_least", **upper), 0.0, np.inf),
        (f"lemma 3: exponent in k of that least grad_b{_UPPER}", "Omega(1): at least 0",
         _exponent("lemma3_least", **upper), -EXACT, np.inf),
        (f"exponent in k of log(k)^4 w.w* where b starts to fall{_UPPER}", "O(1): at most 0",
         _exponent("onset_ratio", **upper), -np.inf, EXACT),
        ("largest k b / (w.w*)", "at most Theta(1)",
         _exact(lambda rows: rows["bias_ratio"].max(), "bias_ratio"), -EXACT, SAME_ORDER + EXACT),
    ]
    # fmt: on
    conditions = (
        in_all(
            "the flow at the largest k reaches the error",
            lambda rows: rows.loc[rows["k"] == rows["k"].max(), "reached"].astype(bool),
        ),
        enough("k", LEAST_POINTS, f"{LEAST_POINTS} k or more"),
    )
    shared = {"conditions": conditions, "digits": 6}
    return [
        Claim(item, statistic, paper=paper, above=above, below=below, **shared)
        for item, paper, statistic, above, below in table
    ]


def _exact(number: Callable[[pd.DataFrame], float], column: str, **settings: object) -> Statistic:
    return computed(lambda rows: [number(rows)], column, exact=True, **settings)


def _least(column: str, **settings: object) -> Statistic:
    return _exact(lambda rows: rows[column].min(), column, **settings)


def _spread(least: str, most: str, **settings: object) -> Statistic:
    """Returns the statistic of the largest number over the least."""

    def ratio(rows: pd.DataFrame) -> float:
        low = rows[least].min()
        return rows[most].max() / low if low else np.inf

    return _exact(ratio, least, **settings)


def _exponent(column: str, **settings: object) -> Statistic:
    """Returns the statistic of an exponent in k, with the interval of the line's slope."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        fit = functools.partial(fit_power_law, own.finished["k"], own.finished[column])
        found = fit()
        return Sample(
            pd.Series([] if found is None else [found.exponent], dtype=float),
            ends=lambda tail: (fit(tail).low, fit(tail).high),
            units=len(own.finished),
            lost=own.lost(column),
        )

    return statistic


# --- report -------------------------------------------------------------------------------------

_SHOWN = "^(k|reached|time|lemma|onset|bias)"
_NOTE = (
    "Time is learning rate times steps, in the limit of small steps, until the error reaches its "
    "target. Lemma 1 is about -grad.w* while |w.w*| <= H / log(k)^4: with config.lemma1_constant, "
    "where the bias is still about 0 and it holds by construction, and with the H = 2 C2 of the "
    "proof, C2 = config.lemma3_constant, which lasts until lemma 3 sets in. Statements about k "
    "from a k0 on are judged in the upper half of the k. Theta(1) is to vary by less than a factor "
    f"{SAME_ORDER:g}; O(1) and Omega(1) are about the interval of an exponent in k."
)


def _draw(table: pd.DataFrame) -> Any:
    """Draws the gradient's three components against w.w*, a line for each k."""
    figure, (axes,) = subplots(1, 3, 4, 3.6)
    ks = sorted(table["k"].unique())
    for place, (k, color) in enumerate(zip(ks, shades(len(ks), 1.0), strict=True)):
        rows = table[table["k"] == k]
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
    axes[1].set_yscale("log")
    axes[2].set_yscale("symlog", linthresh=0.1)
    if ks:
        axes[0].legend(frameon=False)
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the lemmas' numbers for every k, the claims and the figure."""
    table = files.read_histories(workdir, runs.finished, ["k"])
    return Report(
        tables=[("The gradient along its flow", runs.finished.filter(regex=_SHOWN))],
        claims=make_claims(config),
        figures={"lemmas": functools.partial(_draw, table)},
        extra_tables={"trajectories": table},
        notes=[_NOTE],
    )


EXPERIMENT = Experiment(run=run, report=make_report, report_version=2, on_host=lambda config: True)
