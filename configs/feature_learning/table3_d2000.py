"""Table 3 and figures 9, 10, Shi, Wei and Liang 2022: table 1 in d = 2000 dimensions.

    python -m launch.sweep --config=configs/feature_learning/table3_d2000.py --workdir=runs/d2000

Inputs lie in the span of 100 patterns, so training costs what it costs in 100 dimensions.
"""

import ml_collections

from lsa_jax.settings import feature_learning
from lsa_jax.settings.feature_tables import table


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    fields = {
        "title": "Parity labels, d = 2000 (table 3)",
        "paper_item": "feature_learning/table3_d2000",
        "data.d": 2000,
    }
    return table(variant, fields)


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: learner x seed, with structure and without, then other rates."""
    return feature_learning.sweep(config)
