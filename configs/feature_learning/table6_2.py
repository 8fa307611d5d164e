"""Table 6, experiment 2, and figure 16, Shi, Wei and Liang 2022: a mixture of Gaussians.

    python -m launch.sweep --config=configs/feature_learning/table6_2.py --workdir=runs/table6_2

2^4 clusters around the corners of a cube in 25 dimensions, labels by parity, sigma_r = 0.7;
weights after epochs 0, 30 and 50, 100 steps each. All else as in
table6_1.py.
"""

from lsa_jax.experiments.feature_learning.tables import mixture

get_config = mixture(d=25, k=4, sigma_r=0.7, pictures=(0, 3000, 5000))
