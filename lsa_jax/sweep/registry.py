"""The experiments that there are: the folders below `lsa_jax/experiments/` that hold one.

An experiment is a folder with `settings.py` and `experiment.py`; a configuration names it by its
path, such as `lsa/noise_curves`. Nothing else lists it.
"""

import importlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from lsa_jax.errors import InputError
from lsa_jax.sweep.fields import Settings

_ROOM = "lsa_jax.experiments"

if TYPE_CHECKING:
    from lsa_jax.sweep.experiment import Experiment


def names() -> list[str]:
    """Returns the names of all experiments, sorted."""
    folders = map(Path, importlib.import_module(_ROOM).__path__)
    return sorted(
        found.parent.relative_to(folder).as_posix()
        for folder in folders
        for found in folder.rglob("experiment.py")
    )


def _import(name: str, module: str) -> ModuleType:
    if name not in names():
        raise InputError(f"config.experiment is {name!r}; accepted: {', '.join(names())}")
    return importlib.import_module(f"{_ROOM}.{name.replace('/', '.')}.{module}")


def load_settings(name: str) -> Settings:
    """Returns the settings of the experiment of this name, without importing jax.

    Raises:
        InputError: there is no such experiment.
    """
    return _import(name, "settings").SETTINGS


def load_experiment(name: str) -> "Experiment":
    """Returns the experiment of this name.

    Raises:
        InputError: there is no such experiment.
    """
    return _import(name, "experiment").EXPERIMENT
