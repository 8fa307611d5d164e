"""A table of a few examples, for tests of its learners, claims and report."""

import pytest
from small_sweeps import maker

from lsa_jax.experiments.feature_learning.learning.settings import SETTINGS

TINY = {
    "paper_item": "feature_learning/table1",
    "data.d": 12,
    "data.num_patterns": 8,
    "data.k": 3,
    "data.num_train": 60,
    "data.num_test": 20,
    "m": 6,
    "batch_size": 20,
    "steps": 8,
    "eval_every": 3,
    "checkpoint_every": 1,
    "measures": ("kernel_distance", "weight_movement"),
    "measured_examples": 16,
    "sweep.learner": ("network",),
    "sweep.unstructured_learner": (),
    "sweep.seed": (0, 1),
    "sweep.ntk_rate": (),
    "sweep.random_features_rate": (),
}


@pytest.fixture(scope="session")
def make():
    """Returns a function of fields, with __ for dots, to a configuration and its points."""
    return maker(SETTINGS, TINY)
