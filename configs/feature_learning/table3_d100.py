"""Table 3 and figures 9, 10, Shi, Wei and Liang 2022: table 1 in d = 100 dimensions.

    python -m launch.sweep --config=configs/feature_learning/table3_d100.py --workdir=runs/d100

The same problems as table 1's in other coordinates, and the same settings, the NTK's rate included:
accuracies are table 1's up to rounding, for every seed. ":small" is that of table 1. Both run on a
CPU.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.tables import table


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    fields = {
        "title": "Parity labels, d = 100 (table 3)",
        "paper_item": "feature_learning/table3_d100",
        "data.d": 100,
    }
    return table(variant, fields)
