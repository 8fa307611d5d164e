"""Made-up results of decision lists show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.transformers import settings
from lsa_jax.experiments.transformers.claims import step_claims, theorem_claims
from lsa_jax.experiments.transformers.starts import training_claims
from lsa_jax.sweep.variants import set_fields

SIZES = ((8, 3, 2), (10, 4, 3))
SEEDS = (0, 1, 2)


def planned(question, **fields):
    """Returns a configuration and a row for each run it asks for, in order."""
    axes = {"question": question, "sweep.cases": SIZES, "sweep.seed": SEEDS}
    config = set_fields(settings.default_config(), axes | fields)
    return config, pd.DataFrame(settings.sweep(config)).assign(status="ok")


def drawn(rows, scale=1.0, key=0):
    """Returns numbers that differ a little from run to run, as those of seeds do."""
    return scale * (1 + 1e-3 * np.random.default_rng(key).normal(size=len(rows)))


def descents(question, perfect=3.0, **columns):
    """Returns the claims of descents that do as the theorem says, but for what is given."""
    config, rows = planned(question, max_steps=1000)
    found = {"bound": 1e6, "ordered": 1.0, "first_perfect": perfect}
    found |= {"eigenvalue": drawn(rows), "largest_rise": -drawn(rows, 0.01, 1)}
    found |= {"least_slope_ratio": drawn(rows, 50.0, 2), "value_distance": drawn(rows, 0.5, 3)}
    lost = columns.pop("lost", 0)
    rows = rows.assign(**found | columns)
    return theorem_claims(config, rows.iloc[: len(rows) - lost])


QUESTIONS = pytest.mark.parametrize("question", ["value_fixed", "value_near"])


@QUESTIONS
def test_descents_that_do_as_the_theorem_says_show_all_of_it(question):
    assert [claim.status for claim in descents(question)] == ["shown"] * 4
    # Seeds of one size may be equal: lists of full length are relabellings of each other.
    equal = np.r_[[1.0] * 3, 1.1, 1.2, 1.3]
    some = {"eigenvalue": equal, "largest_rise": -equal, "least_slope_ratio": 9 * equal}
    assert [c.status for c in descents(question, **some, value_distance=0.5)] == ["shown"] * 4


@QUESTIONS
def test_descents_that_stand_still_or_take_too_long_show_nothing(question, nothing_shown):
    nothing_shown(descents(question, np.nan))
    nothing_shown(descents(question, [11.0, 30.0, 40.0] * 2, bound=10.0))
    nothing_shown(descents(question, [2.0, np.nan, 40.0] * 2, bound=10.0))
    still = descents(question, largest_rise=0.0)
    assert (still[1].status, still[1].ours) == ("not shown", "0 of 6")


@QUESTIONS
def test_descents_that_ended_before_their_bound_are_named_and_refute_nothing(question):
    bound, short, *_ = descents(question, [3.0, np.nan, 3.0, 3.0, 3.0, 3.0])
    assert (bound.status, short.status) == ("undecided", "undecided")
    assert "1 of 6 runs ended after 1000 steps, before their bound: vocabulary_size 8" in (
        bound.note
    )
    assert "seed 1" in bound.note
    # As many steps as the bound allows are enough to say that it was not kept.
    (kept, *_) = descents(question, [3.0, np.nan, 3.0, 3.0, 3.0, 3.0], bound=1000.0)
    assert kept.status == "not shown"


@QUESTIONS
def test_descents_that_are_not_there_are_named_and_those_that_are_left_show_nothing(
    question, nothing_shown
):
    found = descents(question, lost=2)
    nothing_shown(found)
    assert all("2 of 6 runs have no result: vocabulary_size 10" in claim.note for claim in found)
    lost = descents(question, status=["ok"] * 5 + ["failed"])
    nothing_shown(lost)
    assert all("seed 2" in claim.note and "1 of 6" in claim.note for claim in lost)
    assert {claim.status for claim in lost} == {"undecided"}
    (bound, *_) = descents(question, [2e6] + [3.0] * 5, status=["ok"] * 5 + ["failed"])
    assert bound.status == "not shown"
    none = descents(question, lost=6)
    assert {claim.status for claim in none} == {"not run"}
    assert "6 of 6" in none[0].note and "3 more" in none[0].note


@QUESTIONS
@pytest.mark.parametrize("of", ["bound", "largest_rise", "least_slope_ratio", "ordered"])
def test_what_has_no_number_refutes_nothing_and_shows_nothing(question, of):
    if (question, of) == ("value_near", "ordered"):
        of = "value_distance"
    place = {"bound": 0, "largest_rise": 1, "least_slope_ratio": 2}.get(of, 3)
    good = {"bound": 1e6, "largest_rise": -0.01, "least_slope_ratio": 50.0, "ordered": 1.0}
    for value in (np.nan, np.inf, -np.inf):
        some = descents(question, **{of: [value] + [good.get(of, 0.5)] * 5})[place]
        assert (some.status, some.note[-26:]) == ("undecided", "1 of 6 runs have no number")
        none = descents(question, **{of: value})[place]
        assert none.status == "undecided" and "6 of 6 runs have no number" in none.note


@QUESTIONS
def test_descents_that_are_equal_or_one_show_nothing(question, nothing_shown):
    alike = {"eigenvalue": 1.0, "largest_rise": -0.01, "least_slope_ratio": 50.0}
    equal = descents(question, value_distance=0.5, **alike)
    nothing_shown(equal)
    assert all("all seeds are equal" in claim.note for claim in equal)
    config, rows = planned(question, **{"sweep.seed": (0,), "sweep.cases": SIZES[:1]})
    rows = rows.assign(**alike, value_distance=0.5, ordered=1.0, bound=1e6, first_perfect=3.0)
    one = theorem_claims(config, rows)
    nothing_shown(one)
    assert all("2 runs or more" in claim.note for claim in one)
    config, rows = planned(question, **{"sweep.seed": (0,)})
    rows = rows.assign(**alike, value_distance=0.5, ordered=1.0, bound=1e6, first_perfect=3.0)
    sizes = theorem_claims(config, rows)
    nothing_shown(sizes)
    assert all("all runs are equal" in claim.note for claim in sizes)


def steps(seeds=SEEDS, value_std=1e-4, lost=0, tokens=200, **columns):
    """Returns the claims of steps that pick P up, but for what is given."""
    axes = {"sweep.cases": ((tokens, 2, 1),), "sweep.num_sequences": (1000,), "sweep.seed": seeds}
    axes |= {"vocabulary_size": tokens, "value_std": value_std}
    config, rows = planned("value_step", **axes)
    found = {"columns_right": 1.0, "correlation": drawn(rows, 0.97), "on_min": 6.9}
    found |= {"off_max": drawn(rows, 0.7, 1), "on_mean": 7.0}
    found["uniform_attention_limit"] = [np.nan] + [0.08] * len(seeds)
    rows = rows.assign(**found | columns)
    return step_claims(config, rows.iloc[: len(rows) - lost])


def test_a_constant_v_and_one_of_noise_show_nothing(nothing_shown):
    rng = np.random.default_rng(0)
    nothing_shown(steps(columns_right=1 / 200, correlation=np.nan))
    nothing_shown(steps(columns_right=0.0, correlation=0.0))
    nothing_shown(steps(columns_right=rng.random(4), correlation=rng.normal(scale=0.2, size=4)))
    nothing_shown(steps(columns_right=0.0, correlation=-1.0))


def test_steps_that_pick_p_up_show_it_and_a_sample_alone_does_not():
    assert [claim.status for claim in steps()] == ["shown"] * 5
    one = steps(seeds=(0,))
    # The exact step has no draw in it but V_0's, whose entries are 1e-4.
    assert [claim.status for claim in one] == ["shown"] * 2 + ["undecided"] * 3
    assert all("it would take 2 seeds or more" in claim.note for claim in one[2:])


def test_what_attention_is_needed_for_says_the_exact_step_and_a_limit_below_one():
    weak = [0.97, *[0.5, 0.6, 0.4][: len(SEEDS)]]
    found = steps(correlation=weak[: 1 + len(SEEDS)])
    assert found[3].status != "shown" and found[4].status == "shown"
    assert steps(columns_right=[0.5] + [1.0] * len(SEEDS))[4].status == "undecided"
    for limit, status in ((0.99, "shown"), (1.0, "not shown")):
        assert steps(uniform_attention_limit=limit)[4].status == status


def test_two_samples_that_are_equal_are_none():
    found = steps(seeds=(0, 1), on_mean=7.0, off_max=0.7, correlation=0.97)
    assert all("all seeds are equal" in claim.note for claim in found[2:4])


def test_an_exact_step_that_its_draw_of_v_may_have_made_is_no_result():
    """The margin is 6.2; of 40,000 entries the largest is beyond 5 in 97.5 % of the cases."""
    for value_std, status in ((0.7, "undecided"), (0.6, "shown")):
        exact = steps(value_std=value_std)[:2]
        assert [claim.status for claim in exact] == [status] * 2
        assert all(("one draw of V_0" in c.note) == (status == "undecided") for c in exact)
    assert [claim.status for claim in steps(on_min=np.nan)[:2]] == ["undecided"] * 2
    # Of several sizes each has to have it.
    config, rows = planned("value_step", **{"sweep.seed": (0,), "sweep.num_sequences": (10,)})
    rows = rows.assign(columns_right=1.0, correlation=drawn(rows), on_min=7.0)
    for off_max, status in ((0.5, "shown"), ([0.5, 0.5, 7.0, 0.5], "undecided")):
        exact = step_claims(config, rows.assign(off_max=off_max))[:2]
        assert [claim.status for claim in exact] == [status] * 2


def test_samples_that_scatter_about_the_threshold_are_undecided():
    """Two above 0.9 and one far below: their mean is above, their interval is not."""
    (*_, correlation, _) = steps(correlation=[0.97, 0.99, 0.98, 0.80])
    assert correlation.status == "undecided" and correlation.low < 0.9 < correlation.ours
    (*_, correlation, _) = steps(correlation=[0.97, 0.80, 0.81, 0.79])
    assert correlation.status == "not shown"


def test_steps_that_are_equal_failed_absent_or_without_a_number_show_nothing(nothing_shown):
    equal = steps(correlation=0.97, off_max=0.7)
    assert [claim.status for claim in equal[2:4]] == ["undecided"] * 2
    assert all("all seeds are equal" in claim.note for claim in equal[2:4])
    for found in (steps(lost=1), steps(status=["ok", "ok", "failed", "ok"])):
        nothing_shown(found)
        assert all("1 of 4 runs have no result" in claim.note for claim in found)
    lost = steps(correlation=[0.97, 0.97, np.nan, 0.96], columns_right=[1, 1, np.nan, 1])
    assert [claim.status for claim in lost[2:4]] == ["undecided"] * 2
    assert all("1 of 3 runs have no number" in claim.note for claim in lost[2:4])
    none = steps(columns_right=np.nan, correlation=np.nan, uniform_attention_limit=np.nan)
    assert [claim.status for claim in none] == ["undecided"] * 5
    # The largest sample that was asked for is the one that counts, and it is not there.
    config, rows = planned("value_step", **{"sweep.num_sequences": (10, 1000)})
    small = rows[rows["num_sequences"] != 1000].assign(columns_right=1.0, correlation=0.99)
    assert [c.status for c in step_claims(config, small)][2:4] == ["not run"] * 2


def test_columns_are_right_by_luck_where_there_are_few():
    """Three of three tokens by luck in one step of 27: two steps are needed, one is not enough."""
    config, rows = planned(
        "value_step", vocabulary_size=3, **{"sweep.cases": ((3, 2, 1),), "sweep.seed": SEEDS}
    )
    rows = rows.assign(columns_right=1.0, correlation=drawn(rows), on_min=7.0, off_max=0.0)
    exact, _, sampled, *_ = step_claims(config, rows)
    assert (exact.status, exact.note) == ("undecided", "it would take 2 seeds")
    assert sampled.status == "shown"


def test_of_several_sizes_luck_is_that_of_the_smallest():
    """Two of two tokens are right by luck in one step of four: three steps are needed."""
    config, rows = planned("value_step", **{"sweep.cases": ((2, 2, 1), (6, 3, 2))})
    found = {"correlation": drawn(rows), "on_min": 7.0 + drawn(rows, key=1), "off_max": 0.0}
    exact = step_claims(config, rows.assign(columns_right=1.0, **found))[0]
    assert (exact.status, exact.note) == ("undecided", "it would take 3 seeds")


def starts(success, seeds=SEEDS, randomness=(0.0, 1.0), sizes=SIZES, lost=0, **columns):
    """Returns the claims where `(randomness, seed, size)` succeeds."""
    axes = {"sweep.randomness": randomness, "sweep.seed": seeds, "sweep.cases": sizes}
    config, rows = planned("value_random", **axes)
    keys = zip(rows["randomness"], rows["seed"], rows["vocabulary_size"], strict=True)
    found = {"success": [float(success(*key)) for key in keys], "loss": drawn(rows)}
    rows = rows.assign(**found | {"correlation": drawn(rows, key=1)} | columns)
    return training_claims(config, rows.iloc[: len(rows) - lost])


def test_near_starts_succeed_and_random_ones_do_not():
    near, random = starts(lambda r, seed, size: r == 0)
    assert (near.status, near.ours, near.note) == ("shown", "6 of 6", "")
    assert (random.status, random.ours) == ("measured", "0 of 6")
    near, _ = starts(lambda r, seed, size: r == 0, seeds=(0, 1), sizes=SIZES[:1])
    # Of 2 and 2 by luck in 1 case of 6, of 3 and 3 in 1 of 20, of 4 and 4 in 1 of 70.
    assert (near.status, near.note) == ("undecided", "it would take about 4 seeds")


def test_starts_that_never_or_always_succeed_show_nothing(nothing_shown):
    nothing_shown(starts(lambda *key: False))
    nothing_shown(starts(lambda r, seed, size: r == 1))  # exchanged
    nothing_shown(starts(lambda r, seed, size: seed != 1))
    equal = starts(lambda *key: True)
    nothing_shown(equal)
    assert equal[0].note == "it would take no number of seeds, at these rates"


def test_starts_of_a_seed_count_once_however_many_scales_it_has(nothing_shown):
    """One seed's lists are hard, at all of 4 scales: of 12 runs 4 fail, of 3 seeds one."""
    config, rows = planned(
        "value_random",
        **{"sweep.randomness": (0.0, 1.0), "sweep.value_scale": (0.1, 1.0, 3.0, 10.0)},
        **{"sweep.cases": SIZES[:1]},
    )
    hard = (rows["randomness"] == 1) & (rows["seed"] == 1)
    rows = rows.assign(success=1.0 - hard, loss=drawn(rows))
    found = training_claims(config, rows)
    nothing_shown(found)
    assert "seeds" in found[0].note


def test_starts_of_one_seed_equal_failed_or_absent_show_nothing(nothing_shown):
    def good(r, seed, size):
        return r == 0

    sizes = tuple((tokens, 3, 2) for tokens in range(8, 16))
    one = starts(good, seeds=(0,), sizes=sizes)  # 8 of 8 beside 0 of 8
    nothing_shown(one)
    assert one[0].note == "it would take 2 seeds or more"
    equal = starts(good, loss=0.1, correlation=0.9)
    nothing_shown(equal)
    assert equal[0].note == "all seeds are equal"
    for found in (starts(good, lost=1), starts(good, status=["failed"] + ["ok"] * 11)):
        nothing_shown(found)
        assert "1 of 12 runs have no result" in found[0].note
    lost = starts(lambda r, seed, size: np.nan if seed == 1 and r == 0 else r == 0)
    assert (lost[0].status, lost[0].ours) == ("undecided", "4 of 6")
    assert lost[0].note == "2 of 6 runs have no number"


def test_near_starts_without_random_ones_beside_them_show_nothing(nothing_shown):
    alone = starts(lambda *key: True, randomness=(0.0, 0.5))
    nothing_shown(alone)
    assert all(claim.note == "no random start was run beside it" for claim in alone[:2])
    assert alone[2].status == "not run"
    # A random start is not near, be it the nearest that was run.
    random = starts(lambda *key: True, randomness=(1.0,))
    assert [claim.status for claim in random] == ["not run", "measured"]
    lost = starts(lambda r, seed, size: 1.0 if r == 0 else np.nan if seed == 1 else 0.0)
    nothing_shown(lost)
    assert lost[0].note == "2 of 6 runs from a random V_0 have no number"


def test_starts_that_are_told_apart_at_one_scale_do_not_hide_it():
    """Random starts succeed at all scales but the largest, at which all of them fail."""
    axes = {"sweep.randomness": (0.0, 0.25, 1.0), "sweep.value_scale": (0.1, 1.0, 10.0)}
    config, rows = planned("value_random", **axes)
    fails = (rows["randomness"] == 1) & (rows["value_scale"] == 10)
    itself, near, random = training_claims(
        config, rows.assign(success=1.0 - fails, loss=rows.index)
    )
    assert random.ours == "12 of 18: 6 of 6 at c = 0.1, 6 of 6 at c = 1, 0 of 6 at c = 10"
    for claim in (itself, near):
        assert claim.note == "random starts are shown to succeed less often at c = 10 alone"


def test_one_near_start_that_fails_refutes_that_all_succeed():
    near, _ = starts(lambda r, seed, size: r == 0 and seed < 2)
    assert (near.status, near.ours) == ("not shown", "4 of 6")
