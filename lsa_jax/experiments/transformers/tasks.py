"""The lists that a point's configuration describes."""

import jax
import ml_collections

from lsa_jax.experiments.transformers.sampler import (
    DecisionLists,
    cyclic_lists,
    random_lists,
)
from lsa_jax.experiments.transformers.streams import Seed


def make_lists(config: ml_collections.ConfigDict) -> DecisionLists:
    """Returns the lists of a point."""
    sizes = (config.vocabulary_size, config.list_length)
    if config.lists == "cyclic":
        return cyclic_lists(*sizes, step=config.list_step, shift=config.label_shift)
    return random_lists(jax.random.fold_in(jax.random.key(config.seed), Seed.LISTS), *sizes)
