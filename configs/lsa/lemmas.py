"""Lemmas 1 to 3, Karp et al. 2021: signs and orders of the population gradient, for growing k.

    python -m launch.sweep --config=configs/lsa/lemmas.py --workdir=runs/lemmas

Follows Algorithm 1 in the limit of small steps and large minibatches (no sampling: the population
gradient is computed to rounding) for k = 2^6 to 2^20 noise rows, until the error is 0.01, and
reduces each trajectory to what the lemmas bound. The trajectories are in trajectories.csv.

Cost: 26 s on one busy CPU core. ":small" takes six k, ":quick" three at less
noise.

What came out: all three lemmas hold, lemma 3 from k0 on, but for the size of lemma 1's component
with the H that the proof needs. Below k0, between k = 512 and 1,024 (768
and 896 in theorem1_scaling.py), the gradient vanishes at an error above 0.01 (0.38 at k = 64, 0.07
at k = 512), so neither lemma 3 nor theorem 1 holds there.

    lemma 1    -grad.w* is 0.487 to 0.500 while |w.w*| <= 1 / log(k)^4, at every k
               with the proof's H = 2 C2 (C2 = 64) its least is -5e-12 at k = 64, 0.0036 at 1,024,
               0.18 at 16,384 and 0.35 at 1,048,576: above 0 from k = 128 on, above 0.1 from
               8,192 and above 0.25 from 65,536. Over the upper half of the k the largest is 4.5
               times the least, so that Theta(1) is not shown there
    lemma 2    grad.w_perp / |w_perp|^2 is above 0 all along, at most 0.018 to 0.062 log(k)^3, an
               exponent in k of -0.121 ± 0.006 (it is log(k)^2 / 4 at the start)
    lemma 3    least derivative in b, w.w* >= 64 / log(k)^4 and error >= 0.01:
               k = 1,024: 0.015   4,096: 0.21   16,384: 0.58   131,072: 1.8   1,048,576: 4.5,
               so Omega(1) with room: exponent 0.52 ± 0.02
    start      while b grows, b / (w.w*) stays below 1 / k
"""

import ml_collections

from lsa_jax.experiments.lsa.lemmas import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = {"sweep.k": tuple(2**power for power in range(8, 19, 2))}

_QUICK = {"noise_scale": 0.35, "target_error": 0.05, "sweep.k": (64, 256, 1024)}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {"noise_scale": 1.0, "sweep.k": tuple(2**power for power in range(6, 21))},
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
