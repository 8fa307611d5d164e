"""Figure 19, Shi, Wei and Liang 2022: neurons on the digits 0 and 1 of SVHN form four clusters.

    python -m launch.sweep --config=configs/feature_learning/weights_svhn.py --workdir=runs/svhn

Needs --data_dir=DIR with the data set. m = 50, momentum 0.95, no regularisation are the paper's;
the loss, rate, batch and the small initial weights are ours, as it gives none.
"""

from lsa_jax.experiments.feature_learning.tables import neurons

get_config = neurons(
    {
        "title": "Neurons on SVHN 0/1 (figure 19)",
        "data.dataset": "svhn",
        "init_std": 1 / 3072,
        "clusters": 4,
        "pictures": (0, 10, 50, 200, 1000),
    }
)
