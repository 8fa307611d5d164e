"""Pairs of a few examples, as all tests of stability make them."""

import pytest
from small_sweeps import maker

from lsa_jax.experiments.stability.settings import SETTINGS

TINY = {
    "sweep.m": (12,),
    "sweep.num_pairs": 2,
    "training.batch_size": 5,
    "stops": (3, 8),
    "checkpoint_every": 3,
}


@pytest.fixture(scope="session")
def make():
    """Returns a function of fields, with __ for dots, to a configuration and its points."""
    return maker(SETTINGS, TINY)
