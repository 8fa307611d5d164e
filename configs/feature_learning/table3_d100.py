"""Table 3 and figures 9, 10, Shi, Wei and Liang 2022: table 1 in d = 100 dimensions.

    python -m launch.sweep --config=configs/feature_learning/table3_d100.py --workdir=runs/d100

NTK at its rate for d = 500.
"""

import ml_collections

from lsa_jax.settings import feature_learning
from lsa_jax.settings.feature_tables import table


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    fields = {
        "title": "Parity labels, d = 100 (table 3)",
        "paper_item": "feature_learning/table3_d100",
        "data.d": 100,
    }
    return table(variant, fields)


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: learner x seed, with structure and without, then other rates."""
    return feature_learning.sweep(config)
