"""Table 6, experiment 3, and figure 16, Shi, Wei and Liang 2022: a mixture of Gaussians.

    python -m launch.sweep --config=configs/feature_learning/table6_3.py --workdir=runs/table6_3

2^5 clusters around the corners of a cube in 100 dimensions, labels by parity, sigma_r = 1;
weights after epochs 0, 50 and 80, 100 steps each. All else as in
table6_1.py.
"""

from lsa_jax.experiments.feature_learning.tables import mixture

get_config = mixture(d=100, k=5, sigma_r=1.0, pictures=(0, 5000, 8000))
