"""Figure 3, Karp et al. 2021: how the filter and the threshold of a one-filter CNN are learned.

    python -m launch.sweep --config=configs/lsa/fig3_dynamics.py --workdir=runs/fig3_dynamics

k = 1000 noise rows, d = 10, noise scale 1, batches of 500 fresh examples, 10,000 steps. By default
a step draws just what the gradient depends on (same law); --config.sampler=plain draws every row.

Cost: all 10,000 steps of 3 seeds in 35 s on 2 CPU cores.
Result (mean and standard deviation over 3 seeds, at the end): w.w* 0.862 +- 0.004,
b -0.3807 +- 0.0002, test accuracy 0.788 +- 0.001. The paper draws the curves without numbers.
"""

import ml_collections

from lsa_jax.settings import signal_dynamics
from lsa_jax.settings.variants import choose, set_fields

_SMALL = {"steps": 3000, "sweep.seed": (0, 1)}

_QUICK = {
    "k": 50,
    "d": 5,
    "batch_size": 32,
    "steps": 40,
    "eval_every": 10,
    "num_test": 100,
    "checkpoint_every": 1,
    "sweep.seed": (0, 1),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick."""
    config = set_fields(
        signal_dynamics.default_config(),
        {
            "title": "Training dynamics of a one-filter CNN on sparse signals (figure 3)",
            "k": 1000,
            "d": 10,
            "noise_scale": 1.0,
            "learning_rate": 0.1,
            "batch_size": 500,
            "steps": 10_000,
            "eval_every": 100,
            "num_test": 5000,
            "sweep.seed": (0, 1, 2),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: noise scale x learning rate x seed."""
    return signal_dynamics.sweep(config)
