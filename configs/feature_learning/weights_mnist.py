"""Figures 3 and 17, Shi, Wei and Liang 2022: neurons on the digits 0 and 1 form two clusters.

    python -m launch.sweep --config=configs/feature_learning/weights_mnist.py --workdir=runs/mnist

Needs --data_dir=DIR with the data set. m = 50, momentum 0.95, no regularisation are the paper's;
the loss, rate, batch and the small initial weights are ours, as it gives none. Clusters count where
their silhouette is above 0.5.
"""

from lsa_jax.experiments.feature_learning.tables import neurons

get_config = neurons(
    {
        "title": "Neurons on MNIST 0/1 (figure 3)",
        "data.dataset": "mnist",
    }
)
