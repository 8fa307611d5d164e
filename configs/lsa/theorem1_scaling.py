"""Theorem 1, Karp et al. 2021: steps and samples to error 0.01, as the number of rows k grows.

    python -m launch.sweep --config=configs/lsa/theorem1_scaling.py --workdir=runs/theorem1

Algorithm 1 with eta_w = 0.1, eta_b = eta_w / k and minibatches of 500 until the exact error of its
network is 0.01, and the population gradient's flow, its limit of small steps, over a wider range of
k. The theorem's noise is noise scale 1; at scales 0.25 and 0.5 the error is within reach of few
rows and steps. At noise scale 1 the rate 0.1 is too large for w_perp from k of about 8,000 on
(0.1 log(k)^2 / 4 is above 2), so there the flow is the limit of smaller rates.

Samples are 500 times the steps. Full: minibatches at noise scales 0.25 and 0.5 for k to 2,048, the
flow for 20 k from 2^4 to 2^20. ":small": minibatches at 0.25, for k to 512, and the flow for eight
k. Both run on a CPU.
"""

from lsa_jax.experiments.lsa.signal_scaling.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "sweep.seed": (0, 1),
    "sweep.k": (32, 128, 512),
    "sweep.noise_scale": (0.25,),
    "sweep.population_k": tuple(2**power for power in range(4, 19, 2)),
}

_QUICK = {
    "d": 3,
    "batch_size": 100,
    "learning_rate": 0.5,
    "target_error": 0.05,
    "sweep.seed": (0, 1),
    "sweep.k": (8, 32),
    "sweep.noise_scale": (0.25,),
    "sweep.population_k": (8, 16, 32),
    "sweep.population_noise_scale": (0.25,),
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "Steps to error 0.01 as the number of noise rows grows (theorem 1)",
        "d": 10,
        "learning_rate": 0.1,
        "batch_size": 500,
        "target_error": 0.01,
        "sweep.seed": (0, 1, 2),
        "sweep.k": (128, 256, 512, 1024, 2048),
        "sweep.noise_scale": (0.25, 0.5),
        "sweep.population_k": tuple(sorted([*(2**p for p in range(4, 21)), 640, 768, 896])),
        "sweep.population_noise_scale": (0.25, 0.5, 1.0),
    },
    small=_SMALL,
    quick=_QUICK,
)
