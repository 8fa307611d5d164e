"""Which runs of a sweep make a row of the paper's tables."""

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.learning.settings import rate_of

# Rows of the paper's tables: learner, structured, heading.
ROWS = {
    "network": ("network", True, "Network"),
    "ntk": ("ntk", True, "NTK"),
    "random_features": ("random_features", True, "random features"),
    "one_step": ("one_step", True, "One Step"),
    "one_step_exact": ("one_step_exact", True, "One Step, best classifier"),
    "two_step": ("two_step", True, "Two Step"),
    "two_step_exact": ("two_step_exact", True, "Two Step, best classifier"),
    "without_structure": ("network", False, "Network w/o structure"),
    "memorise": ("memorise", False, "Network w/o structure, to the end"),
    "ntk_without": ("ntk", False, "NTK w/o structure"),
    "random_features_without": ("random_features", False, "random features w/o structure"),
}
# Settings that a sweep varies beside the rows.
_OWN = ("class_weights", "first_rate", "leftover", "steps")


def rows_of(config: ml_collections.ConfigDict, results: pd.DataFrame, name: str) -> pd.DataFrame:
    """Returns the points of one row of the table: a learner at its own settings, all seeds."""
    learner, structured, _ = ROWS[name]
    columns = ["learner", "structured", "rate", "id", "train_accuracy", "test_accuracy"]
    columns += ["test_balanced_accuracy", "cosine", *_OWN]
    found = results.reindex(columns=list(dict.fromkeys([*results.columns, *columns])))
    chosen = (found["learner"] == learner) & (found["structured"] == structured)
    for name in _OWN:
        chosen &= found[name].isna() | (found[name] == config[name])
    return found[chosen & (found["rate"] == rate_of(config, learner))]
