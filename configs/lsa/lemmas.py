"""Lemmas 1 to 3, Karp et al. 2021: signs and orders of the population gradient, for growing k.

    python -m launch.sweep --config=configs/lsa/lemmas.py --workdir=runs/lemmas

Follows Algorithm 1 in the limit of small steps and large minibatches (no sampling: the population
gradient is computed to rounding) for k = 2^6 to 2^20 noise rows, until the error is 0.01, and
reduces each trajectory to the numbers that the lemmas bound (the trajectories: trajectories.csv).

Lemma 1 is checked with H = 1, where its component along w* is 1/2 by construction, as the bias is
still about 0, and with H = 2 C2 (C2 = 64), which the proof needs (thesis, p. 99).
":small" takes six k, ":quick" three at less noise. All run on a CPU.
"""

from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {"sweep.k": tuple(2**power for power in range(8, 19, 2))}

_QUICK = {"noise_scale": 0.35, "target_error": 0.05, "sweep.k": (64, 256, 1024)}

get_config = configurations(
    SETTINGS,
    full={"noise_scale": 1.0, "sweep.k": tuple(2**power for power in range(6, 21))},
    small=_SMALL,
    quick=_QUICK,
)
