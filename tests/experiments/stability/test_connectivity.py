"""Falls of accuracy between two models follow the paths."""

import numpy as np
import pandas as pd
import pytest
from stability_rows import fits_of

from lsa_jax.experiments.stability.claims import make_claims
from lsa_jax.experiments.stability.connectivity import connectivity_drops
from lsa_jax.reporting.intervals import difference_error


def paths_of(ends, falls):
    """Returns paths of a pair each, whose accuracies fall by so much half-way.

    Training accuracy is 1 at the models; outside no two paths are alike.
    """
    rows = [
        {"alpha": alpha, "train_accuracy": 1 - lost, "test_accuracy": ends - lost, "pair": pair}
        for pair, fall in enumerate(falls)
        for alpha, lost in ((0.0, 0.0), (0.5, fall), (1.0, 0.0), (2.0, 0.05 + pair / 100))
    ]
    fixed = {"learner": "resnet", "perturbation": "swap", "seed": 0, "step": 8, "m": 10_000}
    return pd.DataFrame(rows).assign(**fixed)


@pytest.mark.parametrize(
    ("paper", "falls", "status"),
    [
        ("1a", (0.001, 0.002), "shown"),
        ("1a", (0.04, 0.041), "not shown"),
        ("1a", (0.001, 0.05), "undecided"),
        ("2a", (0.035, 0.0351), "shown"),
        ("2a", (0.015, 0.0151), "undecided"),
        ("2a", (0.0, 0.0), "undecided"),
        ("2a", (0.3, 0.31), "not shown"),
        ("2b", (0.3, 0.31), "shown"),
        ("2b", (0.035, 0.0351), "undecided"),
        ("2b", (0.0, 0.0), "not shown"),
    ],
)
def test_falls_between_two_models_are_decided_by_paths_and_examples(networks, paper, falls, status):
    config = networks(paper=paper, connectivity__sizes=(12,))
    with config.unlocked():
        config.data.num_test = 10_000
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    found = make_claims(config, fits, paths_of(0.9, falls))[-2:]
    assert [claim.status for claim in found] == [status] * 2
    guessed = make_claims(config, fits, paths_of(0.1, [0.0, 0.0]))[-1]
    assert guessed.status != "shown"


def test_the_fall_between_two_models_is_below_the_lower_end():
    path = pd.DataFrame({"alpha": [-1.0, 0, 0.5, 1, 2], "accuracy": [0.0, 0.9, 0.7, 0.8, 0.1]})
    path = path.assign(learner="resnet", perturbation="swap", seed=0, step=1, m=2, pair=0)
    np.testing.assert_allclose(connectivity_drops(path, "accuracy"), [0.1])


@pytest.mark.parametrize(("num_train", "num_test"), [(None, None), (300, 200)])
def test_a_fall_has_the_error_of_its_examples_and_ends(networks, num_train, num_test):
    """Those of the sample for the training accuracy, the test set's for the other, or so many."""
    config = networks(paper="2b", connectivity__sizes=(12,))
    with config.unlocked():
        config.data.num_test = 5000
        config.connectivity.num_train, config.connectivity.num_test = num_train, num_test
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    train, test = make_claims(config, fits, paths_of(0.9, [0.2, 0.2]))[-2:]
    for claim, end, examples in (
        (train, 1.0, num_train or 10_000),
        (test, 0.9, num_test or 5000),
    ):
        reach = 1.96 * 100 * difference_error(end, end - 0.2, examples)
        assert claim.ours == pytest.approx(20) and claim.status == "shown"
        np.testing.assert_allclose((claim.low, claim.high), 20 + reach * np.r_[-1, 1], rtol=1e-3)


def test_falls_that_paths_do_not_decide_say_how_many_pairs_and_examples_would(networks):
    config = networks(paper="1a", connectivity__sizes=(12,))
    with config.unlocked():
        config.data.num_test = 500
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    train, test = make_claims(config, fits, paths_of(0.9, [0.01, 0.0102]))[-2:]
    assert train.status == "shown"
    assert test.note.endswith("times as many test examples") and "pairs" not in test.note
    train, test = make_claims(config, fits, paths_of(0.9, [0.01, 0.1]))[-2:]
    for claim, of in ((train, "examples of S"), (test, "test examples")):
        assert claim.status == "undecided" and "pairs" in claim.note and "seeds" not in claim.note
        assert ("times" not in claim.note) or of in claim.note


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda paths: paths[paths["pair"] == 0], "1 of 2 paths"),
        (lambda paths: paths.assign(test_accuracy=0.9, train_accuracy=1.0), "1 of 2 paths"),
        (
            lambda paths: paths.mask((paths["alpha"] == 0.5) & (paths["pair"] == 0), np.nan).assign(
                **paths.drop(columns=["train_accuracy", "test_accuracy"])
            ),
            "an accuracy on a path is not a number",
        ),
        (lambda paths: paths[paths["alpha"] != 0.5], "no place between the models"),
        (lambda paths: paths[paths["alpha"] != 1.0], "or not both of them, on a path"),
        (
            lambda paths: paths.assign(train_accuracy=paths["train_accuracy"] - 0.011),
            "not fitted: a training accuracy of 0.989 at m = 10,000",
        ),
    ],
)
def test_paths_that_say_nothing_show_nothing(networks, change, note):
    config = networks(paper="1a", connectivity__sizes=(12,))
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    for falls in ([0.0, 0.0], [0.3, 0.31]):
        before = make_claims(config, fits, paths_of(0.9, falls))[-2:]
        assert "undecided" not in {claim.status for claim in before}
        for claim in make_claims(config, fits, change(paths_of(0.9, falls)))[-2:]:
            assert claim.status == "undecided" and note in claim.note


def test_what_the_thesis_leaves_open_is_decided_by_no_number_of_paths(networks):
    """Of 1.5 points 2a's "slightly" is true, and so is its being connected."""
    config = networks(paper="2a", connectivity__sizes=(12,))
    fits = fits_of({"loss_gap": -0.48, "stability": 0.02})
    train, _ = make_claims(config, fits, paths_of(0.9, [0.0, 0.03]))[-2:]
    assert (train.status, train.ours) == ("undecided", 1.5)
    assert train.note == "the thesis' words fit a fall of this size and do not ask for it"


def test_few_examples_of_an_accuracy_decide_no_fall_of_it(networks):
    config = networks(paper="2b", connectivity__sizes=(12,))
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    for count, status in ((29, "undecided"), (30, "shown")):
        with config.unlocked():
            config.connectivity.num_train, config.connectivity.num_test = count, None
        train, test = make_claims(config, fits, paths_of(0.9, [0.5, 0.51]))[-2:]
        assert (train.status, test.status) == (status, "shown")
        assert train.note == ("29 examples of S are too few" if count < 30 else "")


def test_paths_are_as_many_as_sizes_trials_and_pairs_ask_for(networks):
    sizes = {"connectivity__sizes": (12, 13), "sweep__m": (12, 13, 14), "sweep__seed": (0, 1)}
    config = networks(paper="1a", connectivity__pairs=3, sweep__num_pairs=5, **sizes)
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    assert "2 of 12 paths" in make_claims(config, fits, paths_of(0.9, [0.0, 0.0]))[-1].note


def test_paths_of_equal_means_are_not_equal(networks):
    config = networks(paper="1a", connectivity__sizes=(12,))
    first = paths_of(0.9, [0.0])
    mirrored = first.assign(pair=1, alpha=1 - first["alpha"])
    fits = fits_of({"loss_gap": -0.35, "stability": -0.17})
    note = make_claims(config, fits, pd.concat([first, mirrored]))[-1].note
    assert "of 2 paths" not in note
