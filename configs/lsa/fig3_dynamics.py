"""Figure 3, Karp et al. 2021: how the filter and the threshold of a one-filter CNN are learned.

    python -m launch.sweep --config=configs/lsa/fig3_dynamics.py --workdir=runs/fig3_dynamics

Algorithm 1 at the paper's settings: k = 1000 noise rows of length 10, minibatches of 500 fresh
examples, 10,000 steps, 5,000 fresh test examples every 100 steps. The caption's sigma = 1 is the
noise scale, so sigma = log(k) / sqrt(k) = 0.218. Left panel: w.w* and b; centre: |b| / (w.w*);
right: test accuracy; dotted: the population loss, Algorithm 1 without sampling noise. The curves
are in trajectories.csv and population.csv. The paper prints no numbers.

Three seeds; ":small" takes 3,000 steps with two. Both run on a CPU. `--config.sampler=plain` draws
every row instead, with the same law, and takes many times as long.
"""

from lsa_jax.experiments.lsa.signal_dynamics.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

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

get_config = configurations(
    SETTINGS,
    full={
        "title": "Training dynamics of a one-filter CNN on sparse signals (figure 3)",
        "k": 1000,
        "d": 10,
        "noise_scale": 1.0,
        "learning_rate": 0.1,
        "batch_size": 500,
        "steps": 10_000,
        "eval_every": 100,
        "num_test": 5000,
        "sweep.seed": tuple(range(10)),
    },
    small=_SMALL,
    quick=_QUICK,
)
