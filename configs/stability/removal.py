r"""Removing an example: stability beside swapping it, for the logistic model of figure 2.1.

    XLA_FLAGS=--xla_force_host_platform_device_count=2 \
    python -m launch.sweep --config=configs/stability/removal.py --workdir=runs/removal \
        --data_dir=DIR

The pairs of figure 2.1 once with z in place of the i-th example of S, once without it. ":small" has
40 pairs a size and 10,000 updates. Both run on a CPU.
"""

from lsa_jax.experiments.stability.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Stability to removing and to swapping an example",
        "sweep.perturbation": ("swap", "removal"),
    },
    small={"stops": (10_000,), "checkpoint_every": 1000, "sweep.num_pairs": 40},
    quick={
        "data.dataset": "digits",
        "sweep.m": (50, 100, 200),
        "sweep.num_pairs": 2,
        "training.batch_size": 16,
        "stops": (20,),
        "checkpoint_every": 20,
        "fit.resamples": 20,
    },
)
