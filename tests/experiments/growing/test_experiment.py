"""Sweeps of growing from end to end: one shallow network, many grown ones, resuming, stages."""

import numpy as np
import pytest
from small_sweeps import GROWING, maker

from lsa_jax.experiments.growing import experiment
from lsa_jax.experiments.growing.experiment import EXPERIMENT
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.sweep.variants import set_fields

ANSWERS = {"downstream.tasks": ("last_word",), "downstream.answer_tokens": 3}
STACKING = {"question": "stacking", "sweep__source": ("copy",), "downstream__tasks": ()}
make = maker(SETTINGS, GROWING | ANSWERS | {"downstream.examples": 9})


def configure(**fields):
    return set_fields(SETTINGS.default_config(), fields)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory, random = tmp_path_factory.mktemp("text"), np.random.default_rng(0)
    words = ["growing", "deep", "networks", "from", "shallow", "ones"]
    lines = (" ".join(random.choice(words, 9)) for _ in range(999))
    (directory / "a.txt").write_text("\n".join(lines))
    return directory


@pytest.fixture(scope="module")
def grown(folder, tmp_path_factory):
    _, points = make(measures=("weight_movement",))
    data, place = EXPERIMENT.load(points, folder), tmp_path_factory.mktemp("growing")
    return EXPERIMENT.run(points, data, place, lambda fraction: None)


def test_operators_share_the_shallow_network_and_differ_once_grown(grown):
    assert {one.status for one in grown} == {"ok"} and len(EXPERIMENT.groups(make()[1])) == 1
    for name, count in (("base_loss", 1), ("initial_loss", 2), ("final_loss", 2)):
        assert len({one.metrics[name] for one in grown}) == count
    for one in grown:
        losses = {row["step"]: row["loss"] for row in one.history if "loss" in row}
        assert (one.metrics["initial_loss"], one.metrics["lag_loss"]) == (losses[0], losses[2])
        name = "weight_movement/layers"
        moved = [row[name] for row in one.history if name in row]
        assert moved[0] == 0 < moved[1] and one.metrics[name] == moved[-1]
        assert one.metrics["measured_examples"] == 0 and "measuring_share" in one.timings


def test_answers_are_kept_by_item_and_an_answer_is_of_the_grown_network(grown):
    assert len({one.outcomes.test for one in grown}) == 1
    for one in grown:
        right, metrics = one.outcomes.values, one.metrics
        assert len(right) == metrics["items_last_word"]
        assert right.mean() == metrics["downstream_last_word"]


def test_a_killed_run_goes_on_operator_by_operator(grown, folder, tmp_path, saved):
    _, points = make()
    data, shares = EXPERIMENT.load(points, folder), []
    saved.fatal = ("part_001", 6)
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.run(points, data, tmp_path, shares.append)
    found = EXPERIMENT.run(points, data, tmp_path, shares.append)
    assert saved[-2:] == [("part_001", 6), ("part_001", 8)]
    for name in ("initial_loss", "lag_loss", "final_loss"):
        assert [o.metrics[name] for o in found] == [o.metrics[name] for o in grown]
    # Four steps of the shallow network, and of each of two operators.
    assert 4 / 12 in shares and shares[-1] == 1


def test_stages_grow_by_the_choice_of_lag_or_by_the_last_block(folder, tmp_path):
    fields = STACKING | {"stage_steps": (4, 6), "final_share": 0.5, "eval_every": 2}
    _, points = make(**fields, measures=("weight_movement",))
    shares, data = [], EXPERIMENT.load(points, folder)
    last, one = EXPERIMENT.run(points, data, tmp_path, shares.append)
    assert last.metrics["chosen"] == "i=1 b=1 copy" and last.metrics["steps_spent"] == 10
    # One candidate more than the chosen one, 2 steps.
    assert one.metrics["steps_spent"] == 10 + 2 and shares == [0.5, 1]
    assert one.metrics["chosen"] in ("i=0 b=1 copy", "i=1 b=1 copy")
    rows = [row for row in one.history if "loss" in row]
    steps = [[row["step"] for row in rows if row["stage"] == k] for k in (0, 1)]
    assert steps == [[0, 2, 4], [6, 8, 10]]
    ends = [row["loss"] for row in rows if row["stage"] == 1 and row["step"] >= 7]
    assert one.metrics["final_loss"] == pytest.approx(np.mean(ends))
    moved = [row["step"] for row in one.history if "weight_movement/tokens" in row]
    assert moved[0] == 0 and moved[-1] == 10 and one.metrics["weight_movement/tokens"] > 0


@pytest.mark.parametrize("lag, window", [(0, 1), (200, 50), (500, 1), (550, 100), (1000, 1)])
def test_the_loss_is_measured_closely_first_and_in_the_window_by_which_lag_decides(lag, window):
    fields = {"grow_steps": 3000, "dense_steps": 20, "dense_every": 1, "eval_every": 1000}
    steps = experiment.measured_steps(configure(**fields, lag_steps=lag, lag_window=window))
    inside = range(lag - window + 1, lag + 1)
    assert steps.tolist() == sorted({*range(21), *inside, 1000, 2000, 3000})


def test_adaptive_stacking_of_bert_large_has_the_thesis_candidates():
    fields = {"layers": 4, "added": 4, "index_strides": (1, 1, 1, 2, 2)}
    config = configure(**fields, **{"sweep.block_size": (1, 2, 4)})
    candidates = [experiment.stage_operators(config, stage) for stage in range(1, 6)]
    assert [len(one) for one in candidates] == [3, 15, 27, 21, 27]
    assert {operator.source for one in candidates for operator in one} == {"copy"}
