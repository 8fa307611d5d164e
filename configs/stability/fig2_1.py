"""Figure 2.1, Karp 2024 (thesis): stability and generalisation of logistic regression on MNIST.

    XLA_FLAGS=--xla_force_host_platform_device_count=2 \
    python -m launch.sweep --config=configs/stability/fig2_1.py --workdir=runs/fig2_1 \
        --data_dir=DIR

Digits 0 to 4 against 5 to 9, 90 pairs a size, 100,000 updates; measured after 10,000, 30,000 and
100,000 of them. The flag lets pairs run on as many CPU cores, one each.

It took 20 min on 2 shared CPU cores; ":small", its first 10,000 updates, 7 min 30 s. What came out,
exponents of m of the largest of 90 pairs with bootstrap intervals, beside the thesis':

    updates       100,000                  10,000                   thesis
    loss gap      -1.05 (-1.09 to -1.01)   -1.03 (-1.05 to -0.98)   -1.05 to -1.13
    stability     -1.02 (-1.80 to -0.58)   -1.13 (-1.57 to -0.60)   the same
    distance      -0.85 (-1.09 to -0.78)   -0.96 (-1.14 to -0.87)   the same
    0-1 gap       -0.74 (-0.75 to -0.70)   -0.84 (-0.89 to -0.81)   -0.82
"""

import ml_collections

from lsa_jax.experiments.stability import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = {"stops": (1000, 3000, 10_000), "checkpoint_every": 1000}

_QUICK = {
    "data.dataset": "digits",
    "sweep.m": (50, 100, 200),
    "sweep.num_pairs": 3,
    "training.batch_size": 16,
    "stops": (20, 40),
    "checkpoint_every": 20,
    "fit.resamples": 20,
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {
            "title": "Stability of logistic regression (figure 2.1)",
            "paper": "fig2_1",
            "stops": (10_000, 30_000, 100_000),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
