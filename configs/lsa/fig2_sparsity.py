r"""Figure 2, Karp et al. 2021: ever fewer neurons are active while a WRN is trained.

    python -m launch.sweep --config=configs/lsa/fig2_sparsity.py --workdir=runs/fig2_sparsity \
        --data_dir=DIR

DIR holds cifar-10-batches-bin/. CIFAR-10 as it is, 32 x 32; for each ReLU layer, the percentage of
its outputs that are not zero for a test image, averaged over the images, against the epoch, from
before the first one on.
Full: WRN-10-10, 200 epochs, batches of 128; needs a GPU. ":small": WRN-10-1 on 2,000 images of
16 x 16 for 40 epochs at a constant rate, 3 seeds, for a CPU: 12 epochs with a rate that falls to 0
were tried before and are too short for activity to fall.
"""

from lsa_jax.experiments.lsa.activation_sparsity.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "width_factor": 1,
    "data.image_size": 16,
    "data.background_size": 16,
    "data.num_train": 2000,
    "data.num_test": 1000,
    "network.epochs": 40,
    "network.eval_every": 2,
    "network.batch_size": 50,
    "network.learning_rate": 0.05,
    "network.schedule": "constant",
    "sweep.seed": (0, 1, 2),
}

_QUICK = _SMALL | {
    "data.num_train": 16,
    "data.num_test": 8,
    "network.epochs": 2,
    "network.eval_every": 1,
    "sweep.seed": (0, 1),
    "network.batch_size": 8,
}

get_config = configurations(
    SETTINGS,
    full={
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
    small=_SMALL,
    quick=_QUICK,
)
