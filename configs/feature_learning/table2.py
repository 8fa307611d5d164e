"""Table 2 and figures 7, 8, Shi, Wei and Liang 2022: labels of an interval, k = 30.

    python -m launch.sweep --config=configs/feature_learning/table2.py --workdir=runs/table2

y = 1 where 20 to 30 of the 30 relevant patterns are there, m = 100, 200 updates. Without structure
95 % of the labels are -1, so an accuracy of 95 % there is that of a constant; the column of
balanced accuracies tells. The rates of NTK and random features are ours, as the paper gives none.

What came out for seed 0 (train %, test %, cosine), 45 s of processor time on a busy 2-core CPU:

    Network        100.0  100.0  0.9995
    NTK             99.7   99.5
    random feat.    74.7   74.6  0.145
    Two Step       100.0  100.0  0.998
    w/o structure  100.0  100.0  0.999
"""

import ml_collections

from lsa_jax.settings import feature_learning
from lsa_jax.settings.feature_tables import table


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    fields = {
        "title": "Labels of an interval (table 2)",
        "paper_item": "feature_learning/table2",
        "data.labels": "interval",
        "data.k": 30,
        "m": 100,
        "steps": 200,
        "ntk_rate": 0.1,
        "sweep.ntk_rate": (0.01, 0.001),
    }
    return table(variant, fields, {"data.num_train": 20_000, "m": 100, "eval_every": 20})


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: learner x seed, with structure and without, then other rates."""
    return feature_learning.sweep(config)
