"""Figure 15, Shi, Wei and Liang 2022: relevant patterns are one of 100 random binary vectors.

    python -m launch.sweep --config=configs/feature_learning/vectors.py --workdir=runs/vectors

D = 250, k = 50, 50 vectors a label. The paper gives no numbers; its picture shows clusters after
two steps. The stars are plus and minus E[y x], as the paper does not say what they are.

Five seeds, 6 min on one core of a 2-core CPU: as in the picture all neurons that are left after
step 2, half of them, are at plus and minus E[y x] (cosine 0.9965 ± 0.0009). Test accuracy: Network
100.00 %, Two Step 78 ± 5, random features 73 ± 2, NTK 62 ± 11 (81 at a rate of 1e-3), One Step 50.

The NTK's rate is 1e-4 here; at the 1e-5 of table 1 it has not been run.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.tables import table


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    fields = {
        "ntk_rate": 1e-4,
        "sweep.ntk_rate": (1e-5, 1e-3),
        "title": "Hidden vectors as labels (figure 15)",
        "data.labels": "vectors",
        "data.num_patterns": 250,
        "data.k": 50,
        "feature_scale": 0.5,
        "sweep.unstructured_learner": (),
    }
    return table(variant, fields, {"data.num_train": 20_000})
