r"""Figure 2.1, Karp 2024 (thesis): stability and generalisation of logistic regression on MNIST.

    XLA_FLAGS=--xla_force_host_platform_device_count=2 \
    python -m launch.sweep --config=configs/stability/fig2_1.py --workdir=runs/fig2_1 \
        --data_dir=DIR

Digits 0 to 4 against 5 to 9, 90 pairs a size, 100,000 updates; measured after 10,000, 30,000 and
100,000 of them. The flag lets pairs run on as many CPU cores, one each. ":small" has the first
10,000 updates.
"""

from lsa_jax.experiments.stability.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Stability of logistic regression (figure 2.1)",
        "paper": "fig2_1",
        "stops": (10_000, 30_000, 100_000),
    },
    small={"stops": (1000, 3000, 10_000), "checkpoint_every": 1000},
    quick={
        "data.dataset": "digits",
        "sweep.m": (50, 100, 200),
        "sweep.num_pairs": 3,
        "training.batch_size": 16,
        "stops": (20, 40),
        "checkpoint_every": 20,
        "fit.resamples": 20,
    },
)
