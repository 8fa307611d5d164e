r"""Linear regression, asked in section 2.4, Karp 2024 (thesis): is non-convexity needed?

    XLA_FLAGS=--xla_force_host_platform_device_count=2 \
    python -m launch.sweep --config=configs/stability/linear_regression.py \
        --workdir=runs/linear_regression --data_dir=DIR

Stability with more pixels than examples: MNIST's 784 and a bias, digits 0 to 4 against 5 to 9, half
the squared error, 50 to 400 examples. The minima of the training loss fill a subspace, a convex
basin as wide as can be. Karp 2024 (thesis) closes section 2.4 with the question; it has no such
figure.

90 pairs a size and 100,000 updates; ":small" has 40 and 10,000. Both run on a CPU.
"""

from lsa_jax.experiments.stability.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Stability of overparameterised linear regression",
        "learner": "linear_regression",
        "training.learning_rate": 0.01,
        "stops": (10_000, 100_000),
        "sweep.learner": ("linear_regression",),
        "sweep.m": (50, 100, 200, 400),
    },
    small={"stops": (1000, 10_000), "checkpoint_every": 1000, "sweep.num_pairs": 40},
    quick={
        "data.dataset": "digits",
        "sweep.m": (10, 20, 40),
        "sweep.num_pairs": 2,
        "training.batch_size": 16,
        "stops": (20,),
        "checkpoint_every": 20,
        "fit.resamples": 20,
    },
)
