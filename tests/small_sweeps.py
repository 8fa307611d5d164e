"""Sweeps of a few small runs, for tests of several experiments."""

from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields


def maker(settings, small):
    """Returns a function of fields, with __ for dots, to a configuration and its points.

    Args:
        settings: of an experiment, a `Settings`.
        small: fields that are always set.
    """

    def make(**fields):
        named = {name.replace("__", "."): value for name, value in fields.items()}
        config = set_fields(settings.default_config(), small | named)
        return config, make_points(config, settings.sweep(config), settings.validate)

    return make
