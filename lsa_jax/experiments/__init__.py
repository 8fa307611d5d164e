"""One module a question. `load_experiment` imports just the one that a configuration names."""

import importlib
from types import ModuleType

from lsa_jax.errors import InputError

NAMES = (
    "activation_sparsity",
    "decision_lists",
    "feature_learning",
    "filter_clouds",
    "fixed_features",
    "growing",
    "hierarchical",
    "image_examples",
    "input_structure",
    "kernel_bound",
    "lemmas",
    "minimal_norm",
    "noise_curves",
    "signal_dynamics",
    "signal_scaling",
    "stability",
    "weight_clouds",
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
