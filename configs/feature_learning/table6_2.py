"""Table 6, experiment 2, and figure 16, Shi, Wei and Liang 2022: a mixture of Gaussians.

    python -m launch.sweep --config=configs/feature_learning/table6_2.py --workdir=runs/table6_2

2^4 clusters around the corners of a cube in 25 dimensions, labels by parity, sigma_r = 0.7;
weights after epochs 0, 30 and 50, 100 steps each. A coordinate's variance is sigma_r^2 k / d, as
the paper's factor is not legible (a factor of 1 cannot be learned); --config.data.variance=1/d is
the other reading. Loss, rate, batch and number of examples are ours, as the paper gives none.

Two scales of the initial weights, for which the story is another one. At a tenth of d^(-1/2) every
cluster is covered in all of five seeds, the least at a cosine of 0.988 in the mean, and neurons
turn, to a cosine of 0.65 with their start. At d^(-1/2) they stay (0.97) and not all are covered:

Five seeds, 1 min 16 s on one core of a 2-core CPU: test accuracy 99.9 %. The neuron nearest to the
mean of a cluster comes from a cosine of 0.60 to one of 0.95 in the mean over clusters, and from
0.51 to 0.89 for the cluster that is covered least: not all are covered, which takes 0.9. Most
neurons stay where they were.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.tables import mixture


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the network in one of the variants full, small, quick."""
    return mixture(variant, d=25, k=4, sigma_r=0.7, pictures=(0, 3000, 5000))
