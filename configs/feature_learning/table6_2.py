"""Table 6, experiment 2, and figure 16, Shi, Wei and Liang 2022: a mixture of Gaussians.

    python -m launch.sweep --config=configs/feature_learning/table6_2.py --workdir=runs/table6_2

2^4 clusters around the corners of a cube in 25 dimensions, labels by parity, sigma_r = 0.7;
weights after epochs 0, 30 and 50, 100 steps each. A coordinate's variance is sigma_r^2 k / d, as
the paper's factor is not legible (a factor of 1 cannot be learned); --config.data.variance=1/d is
the other reading. Loss, rate, batch and number of examples are ours, as the paper gives none.
"""

import ml_collections

from lsa_jax.settings import weight_clouds
from lsa_jax.settings.variants import choose, set_fields

_SMALL = {"m": 400, "data.num_train": 10000, "pictures": (0, 1500, 2500), "sweep.seed": (0, 1)}

_QUICK = {
    "m": 6,
    "batch_size": 16,
    "data.num_train": 40,
    "data.num_test": 20,
    "pictures": (0, 2),
    "sweep.seed": (0, 1),
    "clusters": 4,
    "data.d": 8,
    "data.k": 2,
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the network in one of the variants full, small, quick."""
    config = set_fields(
        weight_clouds.default_config(),
        {
            "title": "Mixture of 2^4 Gaussians, d = 25 (table 6)",
            "data.dataset": "gaussian_mixture",
            "data.d": 25,
            "data.k": 4,
            "data.sigma_r": 0.7,
            "m": 800,
            "init_std": 25**-0.5,
            "output_std": 800**-0.5,
            "loss": "logistic",
            "learning_rate": 0.1,
            "momentum": 0.9,
            "batch_size": 200,
            "pictures": (0, 3000, 5000),
            "clusters": 16,
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: the seeds."""
    return weight_clouds.sweep(config)
