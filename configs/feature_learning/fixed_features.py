"""Theorem 2 and corollary 3, Shi, Wei and Liang 2022: linear models on N fixed features.

    python -m launch.sweep --config=configs/feature_learning/fixed_features.py --workdir=runs/fixed

Test accuracy and hinge loss of the best linear model found on N random neurons, and on N random
features of an RBF kernel, for the parity mixture, against N; and the network of table 1 on as many
examples. D = 100, k = 5 is the paper's; D = 30, k = 3 is smaller, and not covered by the
theorem, which needs 3 < k <= D / 16.

Full: N to 3,000, five seeds. ":small": N to 1,000, 10,000 examples, two seeds. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.fixed_features.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "num_train": 10_000,
    "network.m": 200,
    "sweep.N": (10, 100, 1000),
    "sweep.seed": (0, 1),
    "bandwidths": (1.0,),
    "penalties": (1e-2, 1e-4),
}

_QUICK = {
    "num_train": 100,
    "num_validation": 50,
    "num_test": 50,
    "bandwidths": (1.0,),
    "penalties": (1e-2,),
    "max_iterations": 20,
    "network.m": 10,
    "network.batch_size": 20,
    "network.steps": 8,
    "network.eval_every": 4,
    "sweep.cases": ((10, 3),),
    "sweep.N": (5, 10),
    "sweep.seed": (0,),
}

get_config = configurations(
    SETTINGS,
    {"title": "Linear models on N fixed features, and the network (theorem 2)"},
    small=_SMALL,
    quick=_QUICK,
)
