r"""The best learning rate over widths 1 to 16: does it stay in muP, and fall in the standard one?

    python -m launch.sweep --config=configs/lazy_rich/learning_rates.py \
        --workdir=runs/learning_rates

scikit-learn's digits, two hidden layers of 64 units at width factor 1, Adam for 5 epochs at rates
in factors of sqrt(2) that fall to zero along a cosine. Where it stays, a rate found at width 1 is
the rate at width 16. The definition of the best rate is in the experiment's claims; the definition,
the rates and eight seeds (":small") were chosen on made-up curves. Width and schedule were chosen
after other runs, as they moved least in muP; the claims' thresholds were not.

":small": width factors 1, 4 and 16. ":sgd": the same by gradient descent without momentum.
":narrow" has a base of 8 units, ":constant" constant rates. All run on a CPU.
"""

from lsa_jax.experiments.lazy_rich.learning_rates.settings import SETTINGS
from lsa_jax.sweep.variants import configurations


def _rates(low: float, high: float) -> tuple[float, ...]:
    """Returns the rates from 2^low to 2^high in factors of sqrt(2)."""
    return tuple(2.0 ** (half / 2) for half in range(int(2 * low), int(2 * high) + 1))


_SMALL = {
    "sweep.width_factor": (1, 4, 16),
    "sweep.learning_rate": _rates(-9.5, -1.5),
    "sweep.seed": tuple(range(8)),
}

_QUICK = {
    "data.num_train": 48,
    "data.num_test": 24,
    "model.widths": (4, 4),
    "epochs": 1,
    "sweep.width_factor": (1, 2),
    "sweep.learning_rate": (0.01, 0.1, 1.0),
    "sweep.seed": (0,),
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "The best learning rate on digits by width",
        "model.name": "mlp",
        "model.widths": (64, 64),
        "optimizer": "adam",
        "epochs": 5,
        "max_replicas": 68,
        "sweep.learning_rate": _rates(-11.0, -1.0),
        "sweep.seed": tuple(range(16)),
    },
    small=_SMALL,
    quick=_QUICK,
    sgd=_SMALL | {"optimizer": "sgd", "sweep.learning_rate": _rates(-6.0, 3.0)},
    narrow=_SMALL | {"model.widths": (8, 8)},
    constant=_SMALL | {"schedule": "constant"},
)
