"""Table 5 and figures 13, 14, Shi, Wei and Liang 2022: table 1 on 25,000 examples.

    python -m launch.sweep --config=configs/feature_learning/table5_25000.py --workdir=runs/n25000

The same network, m = 300.

Test accuracy of five seeds, 7 min on one core of a 2-core CPU: Network and Two Step 100 %, cosines
0.9994 ± 0.0004 and 0.9984 ± 0.0003; NTK 80.41 ± 1.43 (paper 84.1), random features 78.12 ± 1.09
(74.7), One Step 49.76 ± 0.39 (50.0), without structure, to the end, 49.79 ± 0.36 (50.2).

The NTK's rate is 1e-4 here; at the 1e-5 of table 1 it has not been run.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.tables import table


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    fields = {
        "ntk_rate": 1e-4,
        "sweep.ntk_rate": (1e-5, 1e-3),
        "title": "Parity labels, 25,000 examples (table 5)",
        "paper_item": "feature_learning/table5_25000",
        "data.num_train": 25000,
    }
    return table(variant, fields, {"data.num_train": 10_000})
