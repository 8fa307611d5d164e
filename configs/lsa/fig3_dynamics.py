"""Figure 3, Karp et al. 2021: how the filter and the threshold of a one-filter CNN are learned.

    python -m launch.sweep --config=configs/lsa/fig3_dynamics.py --workdir=runs/fig3_dynamics

Algorithm 1 at the paper's settings: k = 1000 noise rows of length 10, minibatches of 500 fresh
examples, 10,000 steps, 5,000 fresh test examples every 100 steps. The caption's sigma = 1 is the
noise scale, so sigma = log(k) / sqrt(k) = 0.218. Left panel: w.w* and b; centre: |b| / (w.w*);
right: test accuracy. The curves are in trajectories.csv.

Cost on 2 CPU cores: 27 to 55 s in all for the three seeds (one seed 14 s; the most where the cores
were busy or slower), 0.75 GB of memory. `--config.sampler=plain` draws every row instead,
with the same law, in 20 minutes a seed. ":small" takes 3,000 steps with two seeds, 15 s.

What came out, means over three seeds ± their standard deviation (the paper prints no numbers):

    step     w.w*            b                  |b| / (w.w*)     test accuracy
    1,000    0.237 ± 0.005   -0.0702 ± 0.0002   0.297 ± 0.007    0.647 ± 0.007
    4,000    0.508 ± 0.008   -0.1954 ± 0.0001   0.385 ± 0.006    0.728 ± 0.018
    10,000   0.861 ± 0.003   -0.3806 ± 0.0002   0.442 ± 0.002    0.787 ± 0.002

On the population loss (dotted, population.csv: Algorithm 1 without sampling noise) it is

    10,000   0.855           -0.3765            0.4405              0.7825

and |w_perp| falls to 0, which in the runs the noise of finite minibatches keeps near 0.02.

w.w* grows, b becomes ever more negative, and the test accuracy rises with the ratio (rank
correlation 0.98), as the paper says.
"""

import ml_collections

from lsa_jax.experiments.lsa.signal_dynamics import settings
from lsa_jax.sweep.variants import choose, set_fields

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
        settings.default_config(),
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
