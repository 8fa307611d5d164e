"""The best learning rate over widths 1 to 16: does it stay in muP, and fall in the standard one?

    python -m launch.sweep --config=configs/lazy_rich/learning_rates.py \
        --workdir=runs/learning_rates

scikit-learn's digits, a CNN of two convolutions (8 and 16 channels at width factor 1), Adam for 5
epochs at rates in factors of 2. Where it stays, a rate found at width 1 is the rate at width 16.
Under SGD with momentum (`--config.optimizer=momentum`, rates from 2^-10 to 2) the best rate of this
network falls in neither parameterisation.

Result, in factors of 2 from width 1 to 16: standard -1.70 +- 0.86, muP +1.18 +- 0.27, so that the
claim is not shown.
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
            "optimizer": "adam",
            "epochs": 5,
            "sweep.learning_rate": tuple(2.0**power for power in range(-14, -2)),
            "schedule": "constant",
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
