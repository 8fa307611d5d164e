"""Theorem 1, Karp et al. 2021: steps and samples to error 0.01, as the number of rows k grows.

    python -m launch.sweep --config=configs/lsa/theorem1_scaling.py --workdir=runs/theorem1

Algorithm 1 with eta_w = 0.1, eta_b = eta_w / k and minibatches of 500 until the exact error of its
network is 0.01, and the population gradient's flow, its limit of small steps, over a wider range of
k. The theorem's noise is noise scale 1; at scales 0.25 and 0.5 the error is within reach of few
rows and steps. At noise scale 1 the rate 0.1 is too large for w_perp from k of about 8,000 on
(0.1 log(k)^2 / 4 is above 2), so there the flow says what smaller rates tend to.

Cost: ":small" 45 s on 2 shared CPU cores (51 s of processor time).

What came out, steps at rate 0.1 (samples are 500 times as many):

    k                           16      64        256      1,024      16,384   262,144
    flow, noise scale 0.25     528     970      1,242      1,510       2,250     3,337
    flow, noise scale 0.5    never 147,040     17,842     10,922      10,445    13,789
    flow, noise scale 1      never   never      never  1,755,000      67,978    63,224
    minibatches, 0.25     k = 32: 800 ± 0   128: 1,120 ± 0   512: 1,387 ± 23

So error 0.01 is reached from some k0 on (16, 64, and at noise scale 1 between 768 and 896; below,
the flow comes to rest at a larger error, 0.38 at k = 64), as the theorem says. Close above k0 it
takes very long; beyond, steps hardly depend on k: exponents 0.143 (scale 0.25), 0.05 ± 0.02 (0.5)
and -0.03 ± 0.03 (1) for the flow from 16 k0 on, and 0.198 ± 0.010 for the minibatches, far below
the theorem's unnamed polynomial. Minibatches take as long as the flow says, to within 2% where it
was compared at the same k. The minibatches of the full size at noise scale 0.5 were not run.
"""

import ml_collections

from lsa_jax.experiments.lsa.signal_scaling import settings
from lsa_jax.sweep.variants import choose, set_fields

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


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {
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
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
