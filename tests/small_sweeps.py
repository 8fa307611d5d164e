"""Sweeps of a few small runs, for tests of several experiments."""

import pytest

from lsa_jax.reporting import files
from lsa_jax.sweep import run
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


def swept(config, points, folder):
    """Returns a sweep's results; its report, whose figures cost the most, is not made."""

    def read(config, points, folder, show):
        return files.read_results(folder, [point.id for point in points]), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "report_sweep", read)
        return run.run_sweep(config, points, folder, data_dir=None, command=["test"])
