"""Table 7 and figures 20, 21, Shi, Wei and Liang 2022: filters of ResNet(m) on binary CIFAR-10.

    python -m launch.sweep --config=configs/feature_learning/table7.py --workdir=runs/table7

Needs --data_dir=DIR with the data set. ResNet(128) and ResNet(256) on airplane/automobile, 20
epochs; directions of the filters of each block at epochs 0, 3 and 20, and how far the gradients of
the first 30 steps agree. The full size needs a GPU; ":small" is ResNet(32) on all 10,000 images of
the two classes for 20 epochs, three seeds, an hour and a half on a core (narrower networks have
clusters of 1 to 6 filters, which say little); ":small_tenth" the same with convolutions that start
at a tenth of the size. The paper gives no optimiser, batch or augmentation: SGD with momentum 0.9,
rate 0.1, weight decay 0.0005, batches of 128, no augmentation are ours.
"""

from lsa_jax.experiments.feature_learning.filter_clouds.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

# Clusters of 3 to 26 filters, the paper's epochs.
_SMALL = {
    "data.num_test": 1000,
    "sweep.filters": (32,),
    "sweep.seed": (0, 1, 2),
}

_SMALL_TENTH = _SMALL | {"init_scale": 0.1}

_QUICK = {
    "data.num_train": 12,
    "data.num_test": 6,
    "batch_size": 6,
    "epochs": (1,),
    "gradient_steps": 3,
    "sweep.filters": (2, 4),
    "sweep.seed": (0,),
}

get_config = configurations(
    SETTINGS,
    {"title": "Filters of ResNet(m) on CIFAR-10 airplane/automobile (table 7)"},
    small=_SMALL,
    quick=_QUICK,
    small_tenth=_SMALL_TENTH,
)
