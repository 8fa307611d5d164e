"""Made-up results of decision lists show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.transformers.report import step_claims, theorem_claims, training_claims


def descents(perfect, **columns):
    still = {"bound": 10.0, "largest_rise": 0.0, "least_slope_ratio": 2.0, "ordered": 1.0}
    rows = pd.DataFrame({"first_perfect": perfect}).assign(value_distance=0.5, **still | columns)
    return rows.astype(float)


@pytest.mark.parametrize("question", ["value_fixed", "value_near"])
def test_descents_that_stand_still_or_take_too_long_show_nothing(question, nothing_shown):
    never = descents([np.nan] * 3)
    nothing_shown(theorem_claims(question, never, 3))
    nothing_shown(theorem_claims(question, descents([11.0, 30.0, 40.0]), 3))
    nothing_shown(theorem_claims(question, descents([2.0, np.nan, 40.0]), 3))
    nothing_shown(theorem_claims(question, descents([2.0, 3.0]), 3))  # one run failed


def steps(columns_right, correlation):
    exact = {"gradient": "exact", "num_sequences": np.nan}
    sampled = {"gradient": "sampled", "num_sequences": 1000.0}
    rows = pd.DataFrame([exact, sampled, sampled])
    found = {"columns_right": columns_right, "correlation": correlation}
    return step_claims(rows.assign(status="ok", uniform_attention_limit=0.7, **found))


def test_a_constant_v_and_one_of_noise_show_nothing(nothing_shown):
    nothing_shown(steps(1 / 8, np.nan))
    nothing_shown(steps(0.0, 0.0))
    rng = np.random.default_rng(0)
    nothing_shown(steps(rng.integers(0, 4, 3) / 8, rng.normal(scale=0.2, size=3)))
    nothing_shown(steps(0.0, -1.0))


def test_starts_that_never_or_always_succeed_show_nothing(nothing_shown):
    for success in (0.0, 1.0, [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]):
        rows = pd.DataFrame({"randomness": [0.1, 0.1, 1.0, 1.0]})
        nothing_shown(training_claims(rows.assign(success=success, value_scale=1.0)))
