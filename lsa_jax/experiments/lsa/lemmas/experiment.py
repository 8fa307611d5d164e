"""The paper's lemmas on the population gradient, measured along the gradient's own flow.

Karp et al. (NeurIPS 2021), section 4, lemmas 1 to 3, with the conditions of thesis appendix B.1.3.
The gradient is computed without sampling (`signal.population`), so nothing here is random.
"""

import math
from collections.abc import Callable
from pathlib import Path

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.lemmas.report import make_report
from lsa_jax.experiments.lsa.signal.descent import flow_to_target, measure
from lsa_jax.sweep.experiment import Experiment, Outcome
from lsa_jax.sweep.points import Point


def _onset(course: pd.DataFrame) -> float:
    """Returns w.w* from where on b falls: at the last zero of its slope before the largest."""
    slope, c = course["grad_b"].to_numpy(), course["w_dot_wstar"].to_numpy()
    last = np.flatnonzero(slope[: slope.argmax()] < 0)[-1]
    return float(np.interp(0.0, slope[last : last + 2], c[last : last + 2]))


def _extreme(course: pd.DataFrame, condition: pd.Series, measure: str, extreme: str) -> float:
    """Returns a measure's smallest or largest value under a condition; NaN where it never holds."""
    return float(getattr(course.loc[condition, measure], extreme)())


def check_lemmas(config: ml_collections.ConfigDict, course: pd.DataFrame) -> dict[str, float]:
    """Reduces a trajectory to the numbers that the lemmas bound.

    Args:
        config: of the point.
        course: one row a time, with the entries of `signal.descent.measure`.

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
    c = course["w_dot_wstar"]
    wrong = 1 - course["test_accuracy"] >= config.target_error
    early = c.abs() <= config.lemma1_constant / log_k**4
    # Thesis, p. 99: lemma 1 has to last until lemma 3 sets in, for which its H is 2 C2.
    until_late = c.abs() <= 2 * config.lemma3_constant / log_k**4
    late = wrong & (c >= config.lemma3_constant / log_k**4)
    rate = course["grad_w_perp"] / course["w_perp_norm"]
    return {
        "lemma1_least": -_extreme(course, early, "grad_dot_wstar", "max"),
        "lemma1_most": -_extreme(course, early, "grad_dot_wstar", "min"),
        "lemma1_proof_least": -_extreme(course, until_late, "grad_dot_wstar", "max"),
        "lemma1_proof_most": -_extreme(course, until_late, "grad_dot_wstar", "min"),
        "lemma2_least": float(rate.min()),
        "lemma2_ratio": float(rate.max() / log_k**3),
        "lemma3_least": _extreme(course, late, "grad_b", "min"),
        "lemma3_sketch_least": _extreme(
            course, wrong & (c >= config.k ** (-1 / 8)), "grad_b", "min"
        ),
        "onset_ratio": _onset(course) * log_k**4,
        "bias_ratio": float((course["b"] / c).max() * config.k),
    }


def run(
    group: list[Point], data: None, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Follows the population gradient's flow of one point and checks the lemmas along it."""
    del data, directory, progress
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


EXPERIMENT = Experiment(run=run, report=make_report, on_host=lambda config: True)
