"""Table 6, experiment 2, and figure 16, Shi, Wei and Liang 2022: a mixture of Gaussians.

    python -m launch.sweep --config=configs/feature_learning/table6_2.py --workdir=runs/table6_2

2^4 clusters around the corners of a cube in 25 dimensions, labels by parity, sigma_r = 0.7;
weights after epochs 0, 30 and 50, 100 steps each. A coordinate's variance is sigma_r^2 k / d, as
the paper's factor is not legible (a factor of 1 cannot be learned); --config.data.variance=1/d is
the other reading. Loss, rate, batch and number of examples are ours, as the paper gives none.

Initial weights have entries of d^(-1/2) and of a tenth of it: the paper does not say, and the
result depends on it. A cluster counts as covered by a neuron at a cosine of 0.9 with its mean:
nearer to it than to any other.

Five seeds; ":small" has two, half the updates and fewer neurons. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.tables import mixture

get_config = mixture(d=25, k=4, sigma_r=0.7, pictures=(0, 3000, 5000))
