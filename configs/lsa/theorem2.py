"""Theorem 2, Karp et al. 2021: few fixed filters cannot do the work of one trained filter.

    python -m launch.sweep --config=configs/lsa/theorem2.py --workdir=runs/theorem2

Least test error of the finite CNTK that the search finds, over weights and thresholds, against its
number of filters m, for several draws of the filters; and the one-filter CNN after Algorithm
1 on the same distribution: sigma^2 = 1/d with d next to k / log(k)^2, so sigma = log(k) / sqrt(k);
and the linear classifier that adds up all rows (section 3).
The CNN takes eta_w = 0.05 and, to need thousands of steps instead of far more, eta_b = 0.03 eta_w
in the place of the paper's eta_w / k. The bound is about a fixed m and k large enough; how large
grows with m, as the noise that a kernel adds up exceeds the signal by log(k) alone.

Full: 20 draws of the filters. ":small": 3 draws, without kernels of more than 5,376 weights. Both
run on a CPU.
"""

from lsa_jax.experiments.lsa.kernel_bound.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "max_features": 5376,
    "sweep.seed": tuple(range(3)),
}

_QUICK = {
    "num_train": 100,
    "num_validation": 100,
    "num_test": 100,
    "network.steps": 20,
    "network.eval_every": 10,
    "network.batch_size": 16,
    "sweep.k": (50,),
    "sweep.m": (1, 2),
    "sweep.seed": (0, 1),
    "sweep.network_seed": (0, 1),
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "Error of the finite CNTK against its number of filters (theorem 2)",
        "network.learning_rate": 0.05,
        "network.bias_learning_rate_ratio": 0.03,
        "network.steps": 20_000,
        "sweep.k": (1000, 3000, 10_000),
        "sweep.m": (1, 2, 4, 8, 16, 32, 64, 128, 256),
        "sweep.seed": tuple(range(20)),
    },
    small=_SMALL,
    quick=_QUICK,
)
