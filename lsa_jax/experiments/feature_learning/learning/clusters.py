"""Whether neurons form clusters where the paper draws them and prints no number.

Shi, Wei and Liang (ICLR 2022), appendix E.3.1, figure 15: hidden vectors as labels.
"""

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import doubt
from lsa_jax.experiments.feature_learning.learning.rows import rows_of
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting import claims as rule
from lsa_jax.reporting.report import Claim

# How far from the paper's a cosine may be.
COSINE = 0.02
# A neuron is learned if it is as near as the paper's networks have one in every table, up to that.
LEARNED = min(table["network"][2] for table in FEATURE_LEARNING.values()) - COSINE
# The second step turns those neurons alone whose bias lies between the kinks, 0 and 1: of biases of
# mean zero, half at most. Clusters form if it turns half of those to the truth.
CLUSTER = 0.25

_MEASURES = ("cosine", "share_near")


def cluster_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns whether training turns many of the network's neurons to the truth, and one closely.

    Random features of the same seed have the neurons that the network starts with.
    """
    network, start = (rows_of(config, fine, name) for name in ("network", "random_features"))
    runs, seeds, paper = [network, start], config.sweep.seed, "neurons form clusters (figure 15)"
    after, before = (rows.set_index("seed").reindex(columns=_MEASURES) for rows in runs)
    turned = (after - before)["share_near"].dropna()
    item = f"share of neurons within {config.angle:g} degrees of the truth or its negative, "
    item += f"Network minus its start, above {CLUSTER:g}"
    share = rule.compare(item, paper, turned, above=CLUSTER)
    share = doubt(share, [*runs, turned.reset_index()[["seed"]]], seeds, _MEASURES)
    unless = "" if share.status == "shown" else "neurons are not shown to form a cluster"
    item = f"cosine of the nearest neuron, Network, above {LEARNED:g}"
    near = rule.compare(item, paper, after["cosine"], above=LEARNED, unless=unless)
    near = doubt(near.within(-1.0, 1.0), runs, seeds, _MEASURES)
    return [share.within(-1.0, 1.0), near]
