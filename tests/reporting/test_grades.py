"""Lazy, rich and the words between, on made-up results whose right answer is known."""

import re

import numpy as np
import pandas as pd
import pytest

from lsa_jax.reporting.grades import (
    MARGIN,
    WIDEST,
    WORDS,
    answers,
    best_fixed,
    grade,
    planned_margin,
)
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import score

EXAMPLES = 5000


def made_up(c, accuracies, *, seeds=3, examples=EXAMPLES, spread=0.004, left_out=None, fit=1.0):
    """Runs with these true accuracies, whose errors are shared as far as possible."""
    draw = np.random.default_rng(0)
    difficulty = draw.uniform(size=examples)
    rows, kept = [], {}
    for learner, accuracy in accuracies.items():
        for seed in range(seeds):
            right = difficulty < accuracy + spread * draw.normal()
            row = {"id": f"{learner}-{seed}", "learner": learner, "seed": seed}
            row |= {"test_accuracy": right.mean(), "num_test": examples, "num_classes": 10}
            row["left_out"] = (left_out or {}).get(learner, np.nan)
            if learner == "network":
                row["train_accuracy"] = fit
                row["linearization_error"] = c * (1 + 0.02 * draw.normal())
            rows.append(row)
            kept[row["id"]] = Outcomes(right, "test")
    return Runs.of([], pd.DataFrame(rows), kept)


def learners(network, trained, start, infinite=None):
    found = {"network": network, "ntk_trained": trained, "ntk_finite": start}
    return found if infinite is None else found | {"ntk_infinite": infinite}


@pytest.mark.parametrize(
    ("c", "accuracies", "word"),
    [
        (0.8, learners(0.95, 0.94, 0.85), "rich"),
        (0.05, learners(0.90, 0.90, 0.90), "lazy"),
        (0.05, learners(0.90, 0.90, 0.90, infinite=0.95), "lazy, behind a better kernel"),
        (0.8, learners(0.85, 0.90, 0.80, infinite=0.90), "rich features without gain"),
        (0.8, learners(0.95, 0.85, 0.85), "gain without better features"),
        (0.8, learners(0.90, 0.90, 0.90), "not lazy, without gain"),
        # Network and trained kernel both far below the kernel at the start: not lazy.
        (0.8, learners(0.70, 0.70, 0.90), "not lazy, without gain"),
    ],
)
def test_the_word_for_a_combination_of_grades(c, accuracies, word):
    errors = {"ntk_infinite": 0.1, "ntk_finite": 0.2}
    answer = grade(made_up(c, accuracies, left_out=errors))
    assert answer.word == word, str(answer)


@pytest.mark.parametrize(
    ("c", "accuracies"),
    [
        (0.05, learners(0.95, 0.94, 0.85)),  # it follows its linearisation, and is ahead
        (0.3, learners(0.95, 0.94, 0.85)),
        (0.3, learners(0.90, 0.90, 0.90)),
        (0.05, learners(0.70, 0.70, 0.90)),
        (0.8, learners(0.90, 0.90, 0.85, infinite=0.92)),
    ],
)
def test_no_other_combination_is_lazy_or_rich(c, accuracies):
    assert grade(made_up(c, accuracies)).word not in ("lazy", "rich")


@pytest.mark.parametrize(
    ("c", "accuracies", "possible"),
    [
        (0.8, learners(0.901, 0.95, 0.89), {"rich"}),
        (0.05, learners(0.902, 0.90, 0.90), {"lazy"}),
        (0.05, learners(0.802, 0.99, 0.80), set()),
    ],
)
def test_an_undecided_answer_names_the_words_that_are_left(c, accuracies, possible):
    answer = grade(made_up(c, accuracies, examples=400, spread=0.02))
    assert any(one.words == ("undecided",) for one in answer.grades), str(answer)
    head = answer.word.partition(":")[0].split()
    assert ({"rich", "lazy"} & {*head} == possible) if possible else "neither" in head


def test_a_network_that_learned_nothing_or_did_not_fit_has_no_such_word():
    assert grade(made_up(0.05, learners(0.9, 0.9, 0.9))).word == "lazy"
    assert grade(made_up(0.05, learners(0.9, 0.9, 0.9), fit=0.98)).word != "lazy"
    assert grade(made_up(0.8, learners(0.101, 0.94, 0.05))).word.startswith("undecided")


def test_few_seeds_and_examples_leave_it_undecided_with_limits_and_advice():
    runs = made_up(0.8, learners(0.91, 0.90, 0.90), examples=200, spread=0.03)
    answer = grade(runs, more_examples=True)
    *_, gain = answer.grades
    assert gain.words == ("undecided",) and "no gain above" in gain.help
    assert f"{gain.high:.1f}" in gain.help
    assert "one seed" in str(grade(made_up(0.8, learners(0.95, 0.94, 0.85), seeds=1)))


def test_kernels_that_do_not_vary_with_the_seed_decide_as_those_of_networks_linear_in_weights():
    """Their NTK is the same at any start; equal networks show that nothing was drawn."""
    runs = made_up(0.0, learners(0.90, 0.90, 0.90))
    kernels = runs.finished["learner"] != "network"
    rows = runs.finished.assign(id=runs.finished["id"].where(~kernels, "kernel"))
    rows.loc[kernels, "test_accuracy"] = 0.9
    right = np.arange(EXAMPLES) < 0.9 * EXAMPLES
    kept = runs.outcomes | {"kernel": Outcomes(right, "test")}
    assert grade(Runs.of([], rows, kept)).word.startswith(("lazy", "neither"))
    first = rows[rows["seed"] == 0]
    same = pd.concat([first.assign(seed=seed) for seed in range(3)])
    assert "equal" in grade(Runs.of([], same, kept)).word


def test_limits_beyond_all_points_are_no_limits():
    answer = grade(made_up(0.8, learners(0.5, 0.3, 0.5), examples=30, spread=0.5, seeds=2))
    texts = " ".join(one.help for one in answer.grades)
    assert all(float(n) < 100 for n in re.findall(r"above ([\d.]+)", texts))


def test_intervals_contain_the_true_difference_and_narrow_by_pairing():
    answer = grade(made_up(0.8, learners(0.92, 0.90, 0.90), spread=1e-3))
    *_, gain = answer.grades
    assert gain.low < 2.0 < gain.high
    assert gain.high - gain.low < 2 * 1.96 * 100 * np.sqrt(2 * 0.09 / EXAMPLES)


def test_the_best_fixed_kernel_is_chosen_by_errors_on_training_examples():
    accuracies = learners(0.9, 0.9, 0.9, infinite=0.8)
    runs = made_up(0.8, accuracies, left_out={"ntk_infinite": 0.1, "ntk_finite": 0.2})
    assert best_fixed(runs)[0] == "ntk_infinite"
    runs = made_up(0.8, accuracies, left_out={"ntk_infinite": 0.3, "ntk_finite": 0.2})
    assert best_fixed(runs)[0] == "ntk_finite"


def test_r2_of_real_targets_is_compared_by_squared_errors():
    draw, rows, kept = np.random.default_rng(1), [], {}
    for learner, size in (("network", 0.2), ("ntk_trained", 0.3), ("ntk_finite", 0.6)):
        for seed in range(3):
            errors = np.abs(size * draw.normal(size=400)).astype(np.float16)
            row = {"id": f"{learner}{seed}", "learner": learner, "seed": seed, "num_test": 400}
            row |= {"test_r2": 1 - np.mean(errors.astype(float) ** 2)}
            if learner == "network":
                row |= {"linearization_error": 0.9, "train_r2": 1.0}
            rows.append(row)
            kept[row["id"]] = Outcomes(errors, "test")
    runs = Runs.of([], pd.DataFrame(rows), kept)
    answer = grade(runs)
    assert answer.word == "rich"
    assert answer.grades[2].number == pytest.approx(100 * (0.36 - 0.04), abs=3)
    sample = score(learner="network")(runs)
    np.testing.assert_allclose(sample.examples.mean(axis=1), sample.values, rtol=1e-6)


def test_the_margin_is_two_points_where_the_planned_interval_allows_it():
    assert planned_margin(3, 10_000) == pytest.approx(MARGIN)
    assert planned_margin(3, 300) > 2 * MARGIN * 0.8
    margins = [planned_margin(3, n) for n in (100, 300, 1000)]
    assert margins == sorted(margins, reverse=True)


@pytest.mark.parametrize("seeds", [1, 3])
def test_too_few_examples_show_no_absence_of_a_difference_and_how_many_would_is_named(seeds):
    few = made_up(0.05, learners(0.9, 0.9, 0.9), examples=100, seeds=seeds, spread=0.02)
    answer = grade(few)
    assert answer.word not in dict(WORDS)
    assert not any("equal" in one.words for one in answer.grades)
    (found,) = re.findall(r"about ([\d,]+) would do", str(answer))
    number = int(found.replace(",", ""))
    assert planned_margin(seeds, number) <= WIDEST < planned_margin(seeds, number - 1)


def test_what_misses_kernels_has_its_dynamics_alone():
    table = answers([({"noise": 1}, made_up(0.8, {"network": 0.9}))])
    assert table.to_dict("records")[0].keys() == {"noise", "c", "answer"}
    assert answers([({}, made_up(0.8, {"ntk_finite": 0.9}))]).empty
