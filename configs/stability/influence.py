r"""Influence functions: leave-one-out beside retraining, logistic regression on MNIST.

    python -m launch.sweep --config=configs/stability/influence.py --workdir=runs/influence \
        --data_dir=DIR

The model of figure 2.1 with a ridge, at its optimum; the examples left out, one at a time, are the
first ones of the first pair's sample, which is in random order. ":small" has sizes to 3,200. Both
run on a CPU.
"""

from lsa_jax.experiments.stability.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Leaving one out: influence functions and retraining",
        "question": "influence",
        "perturbation": "removal",
    },
    small={"sweep.m": (800, 1600, 3200), "influence.removed": 20},
    quick={
        "data.dataset": "digits",
        "sweep.m": (50, 100),
        "influence.removed": 4,
        "influence.ridge": 0.01,
    },
)
