"""Noise curves of a few digits, as their tests make and run them."""

from lsa_jax.experiments.lsa.noise_curves.experiment import EXPERIMENT
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
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


def configure(**fields):
    return set_fields(SETTINGS.default_config(), SMALL | fields)


def make_small(sweep, **fields):
    return make_points(configure(**fields), sweep, SETTINGS.validate)


def run(points, directory, progress=lambda fraction: None):
    data = EXPERIMENT.load(points, None)
    outcomes = {}
    for group in EXPERIMENT.groups(points):
        found = EXPERIMENT.run(group, data, directory / group[0].id, progress)
        for point, outcome in zip(group, found, strict=True):
            metrics = EXPERIMENT.columns(point.config) | outcome.metrics
            outcomes[point.id] = outcome._replace(metrics=metrics)
    return outcomes
