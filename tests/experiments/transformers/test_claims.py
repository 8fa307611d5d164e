"""The claims on decision lists, at their bounds and in their words."""

import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.experiments.transformers import settings
from lsa_jax.experiments.transformers.claims import step_claims, theorem_claims
from lsa_jax.experiments.transformers.runs import gaps
from lsa_jax.experiments.transformers.starts import training_claims

make = maker(settings, {"sweep.cases": ((6, 3, 2),)})


def theorem(question="value_fixed", seeds=2, **columns):
    config, _ = make(question=question, sweep__seed=tuple(range(seeds)))
    row = {"bound": 10.0, "first_perfect": 2.0, "largest_rise": -1.0, "ordered": 1.0}
    row |= {"least_slope_ratio": 2.0, "value_distance": 0.5, "eigenvalue": np.arange(seeds)}
    return theorem_claims(
        config, pd.DataFrame(settings.sweep(config)).assign(status="ok", **row | columns)
    )


@pytest.mark.parametrize("question", ["value_fixed", "value_near"])
def test_a_theorem_is_shown_where_every_run_is_within_the_bound(question):
    found = theorem(question, first_perfect=[2, 10])
    assert [claim.status for claim in found] == ["shown"] * 4
    assert found[0].ours == "2 of 2; 10 steps at most, 1 of the bound at most"
    assert [claim.ours for claim in found[1:]] == ["2 of 2", "2 at least"] + [
        "1" if question == "value_fixed" else "0.5 at most"
    ]
    late = theorem(question, first_perfect=[2, 11])
    assert [claim.status for claim in late] == ["not shown"] + ["undecided"] * 3
    assert all(c.note == "not every run is perfect within the bound" for c in late[1:])


@pytest.mark.parametrize(
    ("question", "place", "name", "at", "beyond"),
    [
        ("value_fixed", 1, "largest_rise", -1e-9, 0.0),
        ("value_fixed", 2, "least_slope_ratio", 1.001, 1.0),
        ("value_fixed", 3, "ordered", 1.0, 0.99),
        ("value_near", 3, "value_distance", 1.0, 1.001),
    ],
)
def test_one_run_beyond_its_bound_refutes_what_is_said_of_all(question, place, name, at, beyond):
    assert theorem(question, **{name: [at, at]})[place].status == "shown"
    assert theorem(question, **{name: [at, beyond]})[place].status == "not shown"


def test_nothing_is_claimed_of_what_was_not_run():
    config, _ = make(question="value_fixed")
    none = pd.DataFrame(columns=["status", "gradient", "id"])
    assert [claim.status for claim in theorem_claims(config, none)] == ["not run"] * 4
    config, _ = make(question="value_step")
    assert [claim.status for claim in step_claims(config, none)] == ["not run"] * 5
    config, _ = make(question="value_random")
    assert [claim.status for claim in training_claims(config, none)] == ["not run"] * 2


def test_runs_that_a_sweep_asks_for_are_named_where_they_are_not_there():
    config, _ = make(question="value_near", sweep__epsilon=(0.5, 1.0), sweep__seed=(0, 1, 2))
    rows = pd.DataFrame(settings.sweep(config)).assign(status="ok")
    assert gaps(config, rows) == ""
    one = gaps(config, rows.drop(index=4))
    assert one.startswith("1 of 6 runs have no result: vocabulary_size 6, sequence_length 3, ")
    assert one.endswith(", list_length 2, epsilon 1.0, seed 1")
    many = gaps(config, rows.iloc[:1])
    assert many.startswith("5 of 6 runs") and many.count("; ") == 3 and many.endswith("; 2 more")
    assert "more" not in gaps(config, rows.iloc[:3])
    extra = pd.concat([rows, rows.iloc[:1].assign(status="failed", seed=9)])
    assert gaps(config, extra) == "1 of 7 runs failed"
    # The exact steps are asked for once, the sampled ones by size and seed.
    config, _ = make(question="value_step", sweep__num_sequences=(10, 99), sweep__seed=(4, 5))
    rows = pd.DataFrame(settings.sweep(config)).assign(status="ok")
    assert gaps(config, rows) == "" and len(rows) == 5
    assert gaps(config, rows.drop(index=0)).endswith("list_length 2, gradient exact, seed 4")
    assert gaps(config, rows.drop(index=2)).endswith("gradient sampled, num_sequences 10, seed 5")


def step(correlation):
    """Returns the claims on an exact step and two samples, of correlations as given."""
    config, _ = make(question="value_step", sweep__seed=(0, 1))
    rows = pd.DataFrame(settings.sweep(config)).assign(status="ok", on_min=7.0, off_max=0.0)
    rows = rows.assign(columns_right=1.0, uniform_attention_limit=0.1, on_mean=np.arange(3))
    return step_claims(config, rows.assign(correlation=correlation))


def test_correlations_are_claimed_with_the_bound_that_decides_them():
    for correlation, status in ((0.9, "not shown"), (0.901, "shown")):
        found = step(correlation)
        exact, sampled = found[1], found[3]
        assert exact.item == "correlation of V with P, exact step, above 0.9"
        assert sampled.item == "correlation of V with P, largest sample, above 0.9"
        assert exact.status == sampled.status == status


def test_a_correlation_s_interval_has_no_end_that_none_can_have():
    sampled = step([0.9, 0.1, 0.9])[3]
    assert (sampled.ours, sampled.low, sampled.high) == (0.5, -1.0, 1.0)
