"""The best learning rate over widths 1 to 16: it stays in muP, and falls in the standard one.

    python -m launch.sweep --config=configs/lazy_rich/learning_rates.py \
        --workdir=runs/learning_rates

scikit-learn's digits, a CNN of two convolutions (8 and 16 channels at width factor 1), SGD with
momentum for 5 epochs at rates in factors of 2. A rate found at width 1 is the rate at width 16, in
muP.
"""

import ml_collections

from lsa_jax.experiments.lazy_rich.learning_rates import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = {"sweep.width_factor": (1, 4, 16), "sweep.seed": (0, 1, 2), "epochs": 3}

_QUICK = {
    "data.num_train": 48,
    "data.num_test": 24,
    "model.channels": (2, 3),
    "epochs": 1,
    "sweep.width_factor": (1, 2),
    "sweep.learning_rate": (0.01, 0.1, 1.0),
    "sweep.seed": (0,),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {
            "title": "The best learning rate on digits by width",
            "model.channels": (8, 16),
            "epochs": 5,
            "schedule": "constant",
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
