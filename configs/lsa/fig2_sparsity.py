r"""Figure 2, Karp et al. 2021: ever fewer neurons are active while a WRN is trained.

    python -m launch.sweep --config=configs/lsa/fig2_sparsity.py --workdir=runs/fig2_sparsity \
        --data_dir=DIR

DIR holds cifar-10-batches-bin/. CIFAR-10 as it is, 32 x 32; for each ReLU layer, the percentage of
its outputs that are not zero for a test image, averaged over the images, against the epoch.
Full: WRN-10-10, 200 epochs, batches of 128. ":small": WRN-10-1 on 2,000 images for 12 epochs, 2
seeds: 4 min on 2 CPU cores.

":small": the mean of the seven layers falls by 1.33 ± 0.03 points to 48.2 % (± over seeds, test
accuracy 46 %), by far the most in ReLU 2 (-7.2 ± 0.9) and ReLU 3 (-2.4 ± 1.2); in the others no
fall can be told from none. The full size has not been run.
"""

import ml_collections

from lsa_jax.experiments.lsa.activation_sparsity import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = {
    "width_factor": 1,
    "data.num_train": 2000,
    "data.num_test": 1000,
    "network.epochs": 12,
    "network.batch_size": 50,
    "network.learning_rate": 0.05,
    "network.schedule": "cosine",
    "sweep.seed": (0, 1),
}

_QUICK = _SMALL | {
    "data.num_train": 16,
    "data.num_test": 8,
    "network.epochs": 2,
    "network.batch_size": 8,
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {
            "title": "Active neurons of a WRN on CIFAR-10 (figure 2)",
            "data.dataset": "cifar10",
            "data.image_size": 32,
            "data.background_size": 32,
            "data.background": "none",
            "model.name": "wide_resnet",
            "model.depth": 10,
            "width_factor": 10,
            "max_replicas": 1,
            "network.eval_every": 1,
            "sweep.seed": (0, 1, 2),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
