"""Examples: the images that are drawn are the learners' images."""

import numpy as np
import pandas as pd
from reports import make_report
from small_sweeps import maker

from lsa_jax.experiments.lsa.image_examples.experiment import EXPERIMENT
from lsa_jax.experiments.lsa.image_examples.settings import SETTINGS

FIELDS = {"data.num_train": 8, "data.num_test": 8, "sweep.std": (0.0, 1.0), "num_examples": 2}


def test_each_row_shows_its_placement_and_noise(tmp_path):
    config, points = maker(SETTINGS, FIELDS)(sweep__placement=("fixed_corner",))
    data = EXPERIMENT.load(points, None)
    rows, arrays = [], []
    for (point,) in EXPERIMENT.groups(points):
        directory = tmp_path / "groups" / point.id
        (outcome,) = EXPERIMENT.run([point], data, directory, lambda fraction: None)
        own = {name.split(".")[-1]: value for name, value in point.settings.items()}
        rows.append({"id": point.id, "status": "ok"} | own | outcome.metrics)
        arrays.append(np.load(directory / "examples.npy"))
    quiet, loud = arrays
    np.testing.assert_array_equal(quiet[:, 8:, 8:], loud[:, 8:, 8:])  # the image, bottom right
    assert not quiet[:, :8].any() and 0.8 < loud[:, :8].std() < 1.2
    report = make_report(config, pd.DataFrame(rows), tmp_path)
    drawn = report.figures["examples"]().axes[0].images[0].get_array()
    np.testing.assert_array_equal(drawn[:, :16], np.clip(quiet[0, :, :, 0], 0, 1))
