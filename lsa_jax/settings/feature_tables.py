"""What the configurations of the tables of Shi, Wei and Liang (ICLR 2022) share."""

from typing import Any

import ml_collections

from lsa_jax.settings import feature_learning
from lsa_jax.settings.variants import choose, set_fields

_SMALL = {
    "data.num_train": 20_000,
    "data.num_test": 5000,
    "m": 200,
    "memorise.epochs": 40,
    "eval_every": 50,
    "sweep.seed": (0, 1),
    "sweep.ntk_rate": (),
    "sweep.random_features_rate": (),
}

_QUICK = {
    "data.num_train": 100,
    "data.num_test": 50,
    "m": 10,
    "batch_size": 20,
    "steps": 8,
    "eval_every": 4,
    "memorise.epochs": 1,
    "sweep.seed": (0, 1),
    "sweep.ntk_rate": (),
    "sweep.random_features_rate": (1.0,),
}


def table(
    variant: str, fields: dict[str, Any], small: dict[str, Any] | None = None
) -> ml_collections.ConfigDict:
    """Returns one table: every learner, five seeds.

    Args:
        variant: "full", "small" (fewer examples, neurons and seeds) or "quick" (tests).
        fields: what is the table's own.
        small: what its small variant changes beside.

    Raises:
        InputError: there is no such variant, or no such field.
    """
    config = set_fields(feature_learning.default_config(), fields)
    return choose(config, variant, {"small": _SMALL | (small or {}), "quick": _QUICK})
