"""One module a question. `load_experiment` imports just the one that a configuration names."""

import importlib
from types import ModuleType

from lsa_jax.errors import InputError

NAMES = (
    "activation_sparsity",
    "decision_lists",
    "image_examples",
    "kernel_bound",
    "lemmas",
    "noise_curves",
    "signal_dynamics",
    "signal_scaling",
)

__all__ = ["NAMES", "load_experiment", "load_settings"]


def _import(package: str, name: str) -> ModuleType:
    if name not in NAMES:
        raise InputError(f"config.experiment is {name!r}; accepted: {', '.join(NAMES)}")
    return importlib.import_module(f"lsa_jax.{package}.{name}")


def load_settings(name: str) -> ModuleType:
    """Returns the module `lsa_jax.settings.<name>`, without importing jax.

    Raises:
        InputError: there is no such experiment.
    """
    return _import("settings", name)


def load_experiment(name: str):
    """Returns the `lsa_jax.experiments.experiment.Experiment` of this name.

    Raises:
        InputError: there is no such experiment.
    """
    return _import("experiments", name).EXPERIMENT
