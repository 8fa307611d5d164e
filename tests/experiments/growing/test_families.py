"""What is told of a family of operators is what its losses say, on a family made by hand."""

import ml_collections
import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.growing import families, measures
from lsa_jax.reporting import files
from lsa_jax.training.growth import Operator, stack_last

CONFIG = ml_collections.ConfigDict(
    {
        "layers": 6,
        "added": 2,
        "dense_steps": 30,
        "smooth_steps": 0,
        "lag_steps": 20,
        "lag_window": 10,
        "final_share": 0.25,
    }
)
STEPS = np.array([0, 10, 20, 30, 400])
# The best after growing, after 20 steps, and in the end are three different operators.
RAW = np.array(
    [
        [3.0, 1.0, 2.0, 4.0],
        [3.0, 1.1, 2.0, 4.0],
        [2.0, 2.5, 1.0, 4.0],
        [2.0, 2.5, 1.0, 3.0],
        [0.5, 0.9, 0.7, 0.8],
    ]
)


def _operators():
    top = [stack_last(6, 2, source) for source in ("random", "copy")]
    others = [Operator(index, 2, "copy") for index in (0, 1)]
    assert not set(others) & set(top)
    return [others[0], top[0], top[1], others[1]]


def _rows(seed, count):
    names = _operators()[:count]
    rows = pd.DataFrame(names, columns=["index", "block_size", "source"])
    rows = rows.assign(kind="decoder", schedule="cosine", seed=seed, base_loss=0.25)
    rows["id"] = [f"{seed}-{place}" for place in range(count)]
    rows["downstream_quiz"], rows["items_quiz"] = [0.1, 0.2, 0.3, 0.4][:count], 7
    return rows


@pytest.fixture
def found(tmp_path):
    return made(tmp_path, pd.concat([_rows(0, 2), _rows(1, 4)], ignore_index=True))


def made(tmp_path, fine):
    for run_id in fine["id"]:
        losses = RAW[:, int(run_id[-1])].tolist()
        history = [{"step": s, "loss": v} for s, v in zip(STEPS.tolist(), losses, strict=True)]
        files.write_run(tmp_path, run_id, {}, history)
    return families.make_families(CONFIG, fine, tmp_path)


def test_a_family_is_the_operators_of_a_seed_if_there_are_three(found):
    (family,) = found
    assert family.seed == 1 and family.operators == _operators()
    np.testing.assert_array_equal(family.raw, RAW)
    np.testing.assert_array_equal(family.final, RAW[-1])
    np.testing.assert_array_equal(family.lag, RAW[2])


def test_three_operators_are_a_family_and_two_are_none(tmp_path):
    (three,) = made(tmp_path, pd.concat([_rows(0, 2), _rows(1, 3)], ignore_index=True))
    assert three.operators == _operators()[:3]


def test_a_task_that_an_operator_was_not_asked_is_left_out(tmp_path):
    rows = _rows(1, 4).assign(downstream_other=[0.1, np.nan, 0.3, 0.4], items_other=7)
    (family,) = made(tmp_path, rows)
    assert set(family.downstream) == set(family.items) == {"quiz"}


def test_strategies_take_the_least_loss_of_their_time(found):
    chosen = families.choices(CONFIG, found[0])
    assert chosen == {"oracle": 0, "lag": 2, "lag_0": 1, "stack_last": 2, "stack_random": 1}
    numbers = families.describe(CONFIG, found[0])
    assert numbers["operators"] == 4 and numbers["base_loss"] == 0.25
    assert numbers["picks_random_top"] == 1.0
    np.testing.assert_allclose(numbers["span"], 0.4)
    for name, final in (("oracle", 0.5), ("lag", 0.7), ("lag_0", 0.9)):
        np.testing.assert_allclose(numbers[f"final_loss {name}"], final)
        np.testing.assert_allclose(numbers[f"regret {name}"], final - 0.5)
        np.testing.assert_allclose(numbers[f"relative_regret {name}"], (final - 0.5) / 0.4)
    assert (numbers["downstream_quiz lag"], numbers["items_quiz"]) == (0.3, 7)


def test_correlations_are_of_the_first_and_the_decided_loss_with_the_final_one(found):
    numbers = families.describe(CONFIG, found[0])
    later = found[0]._replace(raw=np.concatenate([RAW[:1], RAW[:0:-1]]))
    assert families.describe(CONFIG, later)["initial_spearman"] == numbers["initial_spearman"]
    for name, losses in (("initial", RAW[0]), ("lag", RAW[2])):
        expected = np.corrcoef(losses, RAW[-1])[0, 1]
        np.testing.assert_allclose(numbers[f"{name}_pearson"], expected)
        # Ranks by hand: 3 1 2 4, and 2 3 1 4, against 1 4 2 3.
        ranks = {"initial": [3, 1, 2, 4], "lag": [2, 3, 1, 4]}[name]
        expected = np.corrcoef(ranks, [1, 4, 2, 3])[0, 1]
        np.testing.assert_allclose(numbers[f"{name}_spearman"], expected)


def test_early_losses_are_correlated_after_as_many_steps_as_in_the_thesis(found):
    raw = np.array([RAW[0], [3, 1, 2, 4], [1, 1, 4, 2], [1, 2, 3, 4], [4, 3, 2, 1], RAW[-1]], float)
    family = found[0]._replace(kind="encoder", raw=raw, smoothed=raw)

    def early(*steps):
        numbers = families.describe(CONFIG, family._replace(steps=np.array([0, 10, *steps])))
        return [numbers[f"early_spearman {k}"] for k in (200, 5000)]

    # After 200 steps the means are 1, 1.5, 3.5, 3: ranks 1 2 4 3, against 1 4 2 3 in the end.
    by_hand = np.corrcoef([1, 2, 4, 3], [1, 4, 2, 3])[0, 1]
    np.testing.assert_allclose(early(195, 200, 300, 400), [by_hand, np.nan])
    after = np.corrcoef([4, 3, 2, 1], [1, 4, 2, 3])[0, 1]
    np.testing.assert_allclose(early(195, 200, 5000, 10_000), [by_hand, after])
    # Of 10,000 steps the final loss of a half is measured from 5,000 on.
    half = ml_collections.ConfigDict(CONFIG.to_dict() | {"final_share": 0.5})
    longest = family._replace(steps=np.array([0, 10, 195, 200, 5000, 10_000]))
    assert np.isnan(families.describe(half, longest)["early_spearman 5000"])
    # No loss in the window up to it, and one that is part of the final loss.
    assert np.isnan(early(190, 210, 300, 400)).all() and np.isnan(early(195, 200, 230, 260)).all()
    numbers = families.describe(CONFIG, found[0])  # a decoder, of which the thesis has none
    assert not any(name.startswith(families.EARLY_SPEARMAN) for name in numbers)


def test_phases_are_looked_for_in_the_dense_steps_alone(found):
    numbers = families.describe(CONFIG, found[0])
    # Steps 0 and 10 order alike, 20 and 30 alike; of the two orders squared ranks differ by 6.
    assert numbers["split"] == numbers["transition"] == 20
    np.testing.assert_allclose(numbers["split_late"], 1.0)
    np.testing.assert_allclose(numbers["split_across"], 1 - 6 * 6 / (4 * 15))
    np.testing.assert_allclose(numbers["split_unexplained"], 0.0, atol=1e-12)
    short = families.describe(
        ml_collections.ConfigDict(CONFIG.to_dict() | {"dense_steps": 10}), found[0]
    )
    assert np.isnan([short[name] for name in ("split", "split_late", "split_across")]).all()


def test_equal_final_losses_leave_no_regret():
    assert measures.relative_regret(1, np.array([0.5, 0.5, 0.5])) == 0.0


def test_the_lowest_of_equal_losses_is_no_choice():
    """By the order in which operators are listed, the first of them would be taken."""
    operators = [Operator(i, 2, source) for i in (0, 2, 4) for source in ("copy", "random")]
    falls, rises = np.linspace(3, 2, 6), np.linspace(2, 3, 6)

    def described(first, lag, final):
        raw = np.stack([first, falls, falls])
        rest = (operators, np.arange(3), raw, raw, lag, final, {}, {})
        one = families.Family("encoder", "constant", 0, 3.0, *rest)
        return families.describe(CONFIG, one)

    tied = described(np.ones(6), np.ones(6), falls)
    assert tied["relative_regret oracle"] == 0.0 and "regret lag" not in tied
    for name in ("relative_regret lag", "relative_regret lag_0", "picks_random_top"):
        assert np.isnan(tied[name])
    told = described(falls, rises, falls)
    assert (told["relative_regret lag_0"], told["relative_regret lag"]) == (0.0, 1.0)
    assert told["picks_random_top"] == 1.0  # i = 4, b = 2, random is the last
