"""The lists that a point's configuration describes."""

import jax
import ml_collections

from lsa_jax.experiments.transformers.sampler import (
    DecisionLists,
    cyclic_lists,
    random_lists,
)

# Stream of a seed's key that draws the lists; the other streams are the questions' own.
_LISTS = 0


def make_lists(config: ml_collections.ConfigDict) -> DecisionLists:
    """Returns the lists of a point."""
    sizes = (config.vocabulary_size, config.list_length)
    if config.lists == "cyclic":
        return cyclic_lists(*sizes, step=config.list_step, shift=config.label_shift)
    return random_lists(jax.random.fold_in(jax.random.key(config.seed), _LISTS), *sizes)
