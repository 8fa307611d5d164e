"""The collection of networks and tasks: its data, its runs, and the claims on its answers."""

from collections import Counter

import jax
import numpy as np
import pytest
from reports import make_report
from small_sweeps import maker, swept

from lsa_jax.data import images
from lsa_jax.experiments.lazy_rich.collection import tasks
from lsa_jax.experiments.lazy_rich.collection.settings import SETTINGS, TASKS, Task
from lsa_jax.models.model import ExampleShape

SMALL = {"seeds": 2, "folds": 1, "examples": 120, "epochs": 2}
make = maker(SETTINGS, SMALL)


def examples(name, found=None):
    return tasks.examples(name, found or {}, Task(name).source, 3000)


@pytest.fixture(scope="module")
def digits():
    return {"digits": images.load("digits")}


def test_made_targets_are_the_stated_functions_of_their_inputs():
    x, y = examples("first of tokens")
    assert x.dtype.kind == "i" and (y == x[:, 0]).all()
    x, y = examples("majority of tokens")
    for tokens, label in zip(x.tolist(), y, strict=True):
        count = Counter(tokens)
        assert count[label] == max(count.values())
    x, y = examples("product of signs")
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert ((x[:, 0] == x[:, 1]) == (y == 1)).all() and 0.45 < y.mean() < 0.55
    x, y = examples("teacher")  # no linear function
    assert 0.3 < np.corrcoef(x @ np.linalg.lstsq(x, y, rcond=None)[0], y)[0, 1] < 0.95
    x, y = examples("random targets")
    assert abs(np.corrcoef(x @ np.linalg.lstsq(x, y, rcond=None)[0], y)[0, 1]) < 0.2
    for table in ("diabetes", "breast cancer", "wine"):
        x, _ = examples(table)
        assert np.allclose(x.mean(0), 0, atol=1e-5) and np.allclose(x.std(0), 1, atol=1e-5)


def test_digits_keep_their_labels_in_noise_and_lose_them_where_they_are_random(digits):
    x, y = examples("digits", digits)
    frames, labels = examples("digits in noise", digits)
    assert (labels == y).all() and frames.shape == (1797, 16, 16, 1)
    windows = np.lib.stride_tricks.sliding_window_view(frames[:20, :, :, 0], (8, 8), (1, 2))
    there = (windows == x[:20, None, None, :, :, 0]).all((3, 4)).sum((1, 2))
    assert (there == 1).all()
    assert frames[:, 0, 0].std() == pytest.approx(1, abs=0.1)
    shuffled = examples("digits, random labels", digits)[1]
    assert (np.bincount(shuffled) == np.bincount(y)).all() and (shuffled == y).mean() < 0.2


def test_every_network_takes_its_examples(digits):
    shapes = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3), "folder": (32, 32, 3)}
    different = {(t.examples, t.network, t.parameterization): t for t in TASKS.values()}
    for task in different.values():  # whatever their scale
        if task.source in shapes:
            x = np.zeros((2, *shapes[task.source]), np.float32)
        else:
            x, _ = tasks.examples(task.examples, digits, task.source, 3000)
        model = tasks.network(task, 3)
        outputs = jax.eval_shape(
            lambda key, model=model, x=x: model.apply(model.init(key, ExampleShape.of(x)), x[:2]),
            jax.random.key(0),
        )
        assert outputs.shape == (2, 3)


def test_a_sweep_has_a_row_a_task_and_its_history(tmp_path):
    names = ("digits_linearized", "teacher_small_alpha")
    config, points = make(sweep__task=names)
    found = swept(config, points, tmp_path).set_index("task")
    assert found.loc["digits_linearized", "dynamics"] == pytest.approx(0, abs=1e-5)
    assert found.loc["digits_linearized", "dynamics_grade"] == "follows"
    assert found.loc["teacher_small_alpha", "dynamics"] > 1e-3
    assert (found[["seeds", "folds", "examples", "epochs"]] == list(SMALL.values())).all(axis=None)
    report = make_report(config, found.reset_index(), tmp_path)
    assert len(report.tables[0][1]) == 2 and not report.figures
    assert {row.status for row in report.claims[:2]} == {"condition not met"}
