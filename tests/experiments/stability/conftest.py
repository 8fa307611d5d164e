"""Pairs of a few examples, as all tests of stability make them."""

import pytest

from lsa_jax.experiments.stability import settings
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

TINY = {
    "sweep.m": (12,),
    "sweep.num_pairs": 2,
    "training.batch_size": 5,
    "stops": (3, 8),
    "checkpoint_every": 3,
}


def _make(**fields):
    named = {name.replace("__", "."): value for name, value in fields.items()}
    config = set_fields(settings.default_config(), TINY | named)
    return config, make_points(config, settings.sweep(config), settings.validate)


@pytest.fixture(scope="session")
def make():
    """Returns a function of fields, with __ for dots, to a configuration and its points."""
    return _make
