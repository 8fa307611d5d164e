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


# Fields of a small search of networks, and of decoders that are grown on the text a.txt.
SEARCH = {
    "d": 8,
    "num_train": 20,
    "num_test": 10,
    "batch_size": 10,
    "epochs": 4,
    "fall_epoch": 2,
    "eval_every": 2,
    "sweep.width": (6,),
    "sweep.seed": (0,),
}
GROWING = {
    "data.sources": ("a.txt",),
    "data.vocabulary_size": 280,
    "data.length": 8,
    "data.validation_windows": 8,
    "model.kind": "decoder",
    "model.width": 8,
    "model.heads": 2,
    "model.hidden": 8,
    "optimizer.learning_rate": 1e-2,
    "batch_size": 8,
    "layers": 2,
    "added": 1,
    "base_steps": 4,
    "grow_steps": 4,
    "dense_steps": 4,
    "lag_steps": 2,
    "checkpoint_every": 2,
    "max_replicas": 1,  # two parts of one operator: one program
    "sweep.kind": ("decoder",),
    "sweep.index": (0, 1),
    "sweep.block_size": (1,),
    "sweep.source": ("copy",),
}
