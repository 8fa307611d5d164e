"""Table 3 and figures 9, 10, Shi, Wei and Liang 2022: table 1 in d = 100 dimensions.

    python -m launch.sweep --config=configs/feature_learning/table3_d100.py --workdir=runs/d100

NTK at its rate for d = 500.

The same problems as table 1's in other coordinates, so for every seed the accuracies are its: of
five seeds Network and Two Step 100 %, NTK 82.35 ± 1.51 (paper 81.5), random features 78.71 ± 1.06
(78.3), One Step 50.23 ± 0.39 (51.1), without structure 49.67 ± 0.53 (51.0). 10 min on one core of a
2-core CPU.
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
