"""Theorem 2, Karp et al. 2021: few fixed filters cannot represent what one trained filter learns.

    python -m launch.sweep --config=configs/lsa/theorem2.py --workdir=runs/theorem2

Least test error of the finite CNTK that the search finds, over weights and thresholds, against its
number of filters m, for several draws of the filters; beside it the one-filter CNN after Algorithm
1 on the same distribution: sigma^2 = 1/d with d next to k / log(k)^2, so sigma = log(k) / sqrt(k).
The CNN takes eta_w = 0.05 and, to need thousands of steps instead of far more, eta_b = 0.03 eta_w
in the place of the paper's eta_w / k. The bound is about a fixed m and k large enough; how large
grows with m, as the noise that a kernel adds up exceeds the signal by log(k) alone.

":small" took 7 min 26 s on 2 CPU cores. What came out (3 draws of the filters, 3 seeds of the CNN;
means ± standard deviation; kernels of more than 5,376 weights are left out):

    m                 1      2      4      8      16     32     64     128    256    CNN
    k = 1,000       0.414  0.385  0.282  0.162  0.065  0.017  0.001  0.000  0.000  0.096 ± 0.006
    k = 3,000       0.428  0.402  0.323  0.257  0.114  0.049  0.011                0.006 ± 0.003

At each m the kernel's error grows with k, while the CNN's goes to zero; k = 1,000 is too small for
either. Up to m = 8 all 3 draws err on more than 0.1. That is few draws: of 8 at k = 3,000, 8 did
for m = 1 and 2, 6 for m = 4 and 8 and 4 for m = 16 (0.367, 0.241, 0.174 and 0.098 on average from
m = 2 on). The full size, up to k = 10,000 with 20 draws, has not been run.
"""

import ml_collections

from lsa_jax.experiments.lsa.kernel_bound import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = {
    "network.steps": 4000,
    "max_features": 5376,
    "sweep.k": (1000, 3000),
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


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the comparison in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {
            "title": "Error of the finite CNTK against its number of filters (theorem 2)",
            "network.learning_rate": 0.05,
            "network.bias_learning_rate_ratio": 0.03,
            "network.steps": 20_000,
            "sweep.k": (1000, 3000, 10_000),
            "sweep.m": (1, 2, 4, 8, 16, 32, 64, 128, 256),
            "sweep.seed": tuple(range(20)),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
