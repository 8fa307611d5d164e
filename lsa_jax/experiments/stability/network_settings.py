"""The protocol that the network configurations of Karp's thesis (2024), table 2.1, share."""

from collections.abc import Callable
from typing import Any

import ml_collections

from lsa_jax.experiments.stability.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SIZES = (15_000, 20_000, 25_000, 30_000, 35_000, 40_000, 45_000, 50_000)

_CIFAR10 = {
    "data.dataset": "cifar10",
    "training.batch_size": 128,
    "training.learning_rate": 0.1,
    "training.decay_steps": (32_000, 48_000),
}

# Table 2.1, by its names.
_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "1a": {
        "data.dataset": "svhn",
        "data.num_test": 10_000,
        "training.batch_size": 32,
        "training.learning_rate": 0.01,
    },
    "2a": _CIFAR10,
    "2b": _CIFAR10 | {"training.momentum": 0.9},
}

# ResNet-8 of a quarter of the channels, CIFAR-10 at 16 x 16, on CPU cores. The updates are as many
# as it takes to fit the most examples: before that the gap has another exponent at every stop.
_SMALL = {
    "data.dataset": "cifar10",
    "data.size": 16,
    "data.num_test": 500,
    "model.depth": 8,
    "model.channels": 4,
    "model.statistics_batches": 8,
    "training.batch_size": 32,
    "report_step": None,
    "checkpoint_every": 400,
    "eval_batch_size": 100,
    "max_replicas": 10,
    "connectivity.sizes": (250, 1000),
    "connectivity.pairs": 4,
    "connectivity.num_train": 250,
    "connectivity.num_test": 250,
    "sweep.seed": (0,),
    "sweep.m": (250, 500, 1000),
    "sweep.num_pairs": 40,
    "fit.resamples": 200,
}

# Training of each: twice the updates without momentum; half the sizes at half the rate.
_SMALL_TRAINING: dict[str, dict[str, Any]] = {
    "1a": {
        "training.batch_size": 16,
        "training.learning_rate": 0.05,
        "stops": (1600, 3200),
        "connectivity.sizes": (125, 500),
        "sweep.m": (125, 250, 500),
    },
    "2a": {"training.decay_steps": (2400,), "stops": (1600, 3200)},
    "2b": {"training.decay_steps": (1200,), "stops": (800, 1600)},
}

_QUICK = _SMALL | {
    "data.dataset": "digits",
    "data.size": None,
    "data.num_test": 20,
    "model.channels": 2,
    "training.batch_size": 8,
    "training.decay_steps": (3,),
    "stops": (2, 4),
    "checkpoint_every": 2,
    "eval_batch_size": 20,
    "max_replicas": 20,
    "connectivity.sizes": (16, 32),
    "connectivity.pairs": 2,
    "connectivity.num_alphas": 7,
    "sweep.m": (16, 24, 32),
    "sweep.num_pairs": 2,
    "fit.resamples": 20,
}


def configuration(
    name: str,
    full: dict[str, Any],
    small: dict[str, Any] | None = None,
    quick: dict[str, Any] | None = None,
) -> Callable[[str], ml_collections.ConfigDict]:
    """Returns `get_config`: ResNet-20, three trials, 40 pairs, 150,000 updates.

    Args:
        name: "1a", "2a" or "2b", of table 2.1.
        full: the figure's own fields.
        small: fields that change in both smaller variants, for two CPU cores and for tests.
        quick: fields that change in the variant for tests alone.
    """
    protocol = {
        "learner": "resnet",
        "stops": (50_000, 100_000, 150_000),
        "report_step": 100_000,
        "checkpoint_every": 1000,
        "max_replicas": 20,
        "connectivity.sizes": (15_000, 50_000),
        "sweep.learner": ("resnet",),
        "sweep.seed": (0, 1, 2),
        "sweep.m": _SIZES,
        "sweep.num_pairs": 40,
    }
    own = small or {}
    return configurations(
        SETTINGS,
        full=protocol | _CONFIGURATIONS[name] | full,
        small=_SMALL | _SMALL_TRAINING[name] | own,
        quick=_QUICK | own | (quick or {}),
    )
