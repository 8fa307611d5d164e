r"""The best learning rate over widths 1 to 16: does it stay in muP, and fall in the standard one?

    python -m launch.sweep --config=configs/lazy_rich/learning_rates.py \
        --workdir=runs/learning_rates

scikit-learn's digits, two hidden layers of 64 units at width factor 1, Adam for 5 epochs at rates
in factors of 2 that fall to zero along a cosine. Where it stays, a rate found at width 1 is the
rate at width 16. Width and schedule were chosen after other runs, by what moved least in muP; the
claims' thresholds were not. ":narrow" is the same from a base of 8 units, ":constant" at constant
rates.

":small" has width factors 1, 4 and 16. All run on a CPU.
"""

import ml_collections

from lsa_jax.experiments.lazy_rich.learning_rates import settings
from lsa_jax.sweep.variants import choose, set_fields

_ENDS = {"sweep.width_factor": (1, 4, 16)}

_QUICK = {
    "data.num_train": 48,
    "data.num_test": 24,
    "model.widths": (4, 4),
    "epochs": 1,
    "sweep.width_factor": (1, 2),
    "sweep.learning_rate": (0.01, 0.1, 1.0),
    "sweep.seed": (0,),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick, narrow, constant."""
    config = set_fields(
        settings.default_config(),
        {
            "title": "The best learning rate on digits by width",
            "model.name": "mlp",
            "model.widths": (64, 64),
            "optimizer": "adam",
            "epochs": 5,
            "sweep.learning_rate": tuple(2.0**power for power in range(-11, -1)),
        },
    )
    variants = {
        "small": _ENDS,
        "quick": _QUICK,
        "narrow": _ENDS | {"model.widths": (8, 8)},
        "constant": _ENDS | {"schedule": "constant"},
    }
    return choose(config, variant, variants)
