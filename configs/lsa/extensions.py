"""Extensions that Karp et al. 2021 name beyond their theorems: does the learning carry over?

    python -m launch.sweep --config=configs/lsa/extensions.py --workdir=runs/extensions

Algorithm 1, but with eta_b = 0.02 eta_w in the place of eta_w / k = 0.01 eta_w, on k = 100 noise
rows of length 5, each extension alone: a signal of three orthogonal features with random signs;
separate filters, thresholds and final weights for the two halves of the activation; a signal
anywhere in a long vector, under a filter of stride 2. The report has a series for each, with
the claims of figure 3 checked on it. Every row is drawn, as the shortcut is for the paper's network
alone.

3,000 steps and five seeds; ":small" has 600 steps and two. Both run on a CPU.
"""

import ml_collections

from lsa_jax.experiments.lsa.signal_dynamics.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

# With three features the signal that one filter can follow is 1/3 in most examples, so the noise is
# weaker; with separate filters the network is not odd and bears a smaller learning rate.
_EXTENSIONS = (
    {"num_features": 3, "noise_scale": 0.2, "learning_rate": 0.1},
    {"separate_filters": True, "noise_scale": 0.4, "learning_rate": 0.03},
    {"stride": 2, "noise_scale": 0.4, "learning_rate": 0.1},
)

_SMALL = {"steps": 600, "sweep.seed": (0, 1)}

_QUICK = {
    "k": 30,
    "d": 5,
    "batch_size": 16,
    "steps": 20,
    "eval_every": 10,
    "num_test": 50,
    "checkpoint_every": 1,
    "sweep.seed": (0,),
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "Training dynamics beyond the paper's setting",
        "k": 100,
        "d": 5,
        "bias_learning_rate_ratio": 0.02,
        "batch_size": 500,
        "steps": 3000,
        "eval_every": 100,
        "num_test": 2000,
        "sampler": "plain",
        "population": False,
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    small=_SMALL,
    quick=_QUICK,
)


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: each extension alone, for each seed."""
    return [{**extension, **point} for extension in _EXTENSIONS for point in SETTINGS.sweep(config)]
