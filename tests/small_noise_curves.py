"""Noise curves of a few digits, as their tests make and run them."""

from lsa_jax.experiments.lsa.noise_curves import experiment, settings
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

SMALL = {
    "data.num_train": 24,
    "data.num_test": 12,
    "model.channels": (2, 3),
    "network.epochs": 2,
    "network.schedule": "constant",
    "network.batch_size": 8,
    "ntk_finite.epochs": 2,
    "ntk_finite.schedule": "constant",
    "ntk_finite.batch_size": 8,
}


def make_small(sweep, **fields):
    config = set_fields(settings.default_config(), SMALL | fields)
    return make_points(config, sweep, settings.validate)


def run(points, directory):
    data = experiment.load(points, None)
    outcomes = {}
    for group in experiment.groups(points):
        found = experiment.run(group, data, directory / group[0].id, lambda fraction: None)
        outcomes |= {point.id: outcome for point, outcome in zip(group, found, strict=True)}
    return outcomes
