"""Figure 18, Shi, Wei and Liang 2022: neurons on CIFAR-10 airplane/automobile, two clusters.

    python -m launch.sweep --config=configs/feature_learning/weights_cifar10.py --workdir=runs/fig18

Needs --data_dir=DIR with the data set. m = 50, momentum 0.95, no regularisation are the paper's;
the loss, rate, batch and the small initial weights are ours, as it gives none.
"""

from lsa_jax.experiments.feature_learning.tables import neurons

get_config = neurons(
    {
        "title": "Neurons on CIFAR-10 airplane/automobile (figure 18)",
        "data.dataset": "cifar10",
        "init_std": 1 / 3072,
    }
)
