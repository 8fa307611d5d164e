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
