"""Table 4 and figures 11, 12, Shi, Wei and Liang 2022: 80 % of the labels are -1.

    python -m launch.sweep --config=configs/feature_learning/table4_80.py --workdir=runs/t4_80

Training and test examples have that share exactly, by rejection; steps 1 and 2 weigh both classes
alike, as in the paper's appendix F. A constant has an accuracy of 80 %.

Seed 0 of Network and Two Step, 35 s of processor time on a busy 2-core CPU: 100 % on training and
test examples, cosines 0.999 and 0.998.
"""

import ml_collections

from lsa_jax.settings import feature_learning
from lsa_jax.settings.feature_tables import table


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    fields = {
        "title": "Parity labels, 80 % negative (table 4)",
        "paper_item": "feature_learning/table4_80",
        "data.negative_share": 0.8,
        "class_weights": "all_steps",
        "random_features_rate": 0.1,
        "sweep.random_features_rate": (0.03, 0.3),
    }
    return table(variant, fields)


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: learner x seed, with structure and without, then other rates."""
    return feature_learning.sweep(config)
