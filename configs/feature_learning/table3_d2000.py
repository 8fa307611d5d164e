"""Table 3 and figures 9, 10, Shi, Wei and Liang 2022: table 1 in d = 2000 dimensions.

    python -m launch.sweep --config=configs/feature_learning/table3_d2000.py --workdir=runs/d2000

Inputs lie in the span of 100 patterns, so training costs what it costs in 100 dimensions.

The same problems as table 1's in other coordinates, so for every seed the accuracies are its: of
five seeds Network and Two Step 100 %, NTK 82.35 ± 1.51 (paper 75.4), random features 78.71 ± 1.06
(77.0), One Step 50.23 ± 0.39 (50.01), without structure 49.67 ± 0.53 (52.5). 12 min on one core of
a 2-core CPU.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.tables import table


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    fields = {
        "title": "Parity labels, d = 2000 (table 3)",
        "paper_item": "feature_learning/table3_d2000",
        "data.d": 2000,
    }
    return table(variant, fields)
