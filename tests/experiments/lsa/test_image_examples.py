"""Examples: what is drawn is what learners are given."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.image_examples import settings
from lsa_jax.experiments.lsa.image_examples.experiment import EXPERIMENT
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

FIELDS = {"data.num_train": 8, "data.num_test": 8, "sweep.std": (0.0, 1.0), "num_examples": 2}


def test_each_row_shows_its_placement_and_noise(tmp_path):
    config = set_fields(settings.default_config(), FIELDS | {"sweep.placement": ("fixed_corner",)})
    points = make_points(config, settings.sweep(config), settings.validate)
    data = EXPERIMENT.load(points, None)
    rows, arrays = [], []
    for (point,) in EXPERIMENT.groups(points):
        directory = tmp_path / "groups" / point.id
        (outcome,) = EXPERIMENT.run([point], data, directory, lambda fraction: None)
        settings_of_point = {name.split(".")[-1]: v for name, v in point.settings.items()}
        rows.append({"id": point.id, "status": "ok"} | settings_of_point | outcome.metrics)
        arrays.append(np.load(directory / "examples.npy"))
    quiet, loud = arrays
    np.testing.assert_array_equal(quiet[:, 8:, 8:], loud[:, 8:, 8:])  # the image, bottom right
    assert not quiet[:, :8].any() and 0.8 < loud[:, :8].std() < 1.2
    report = EXPERIMENT.report(config, pd.DataFrame(rows), tmp_path)
    figure = report.figures["examples"]()
    drawn = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(drawn[:, :16], np.clip(quiet[0, :, :, 0], 0, 1))


def test_distractors_lie_only_in_corners():
    config = set_fields(
        settings.default_config(),
        {"data.dataset": "cifar10", "sweep.background": ("distractors", "none")},
    )
    points = make_points(config, settings.sweep(config), settings.validate)
    placed = {(p.config.data.background, p.config.data.placement) for p in points}
    assert ("distractors", "random_location") not in placed
    assert ("distractors", "random_corner") in placed and ("none", "random_location") in placed
