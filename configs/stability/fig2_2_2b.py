"""Figures 2.2 to 2.4, A.4, A.7, A.10 and A.11 to A.13 of configuration 2b, Karp 2024 (thesis).

    python -m launch.sweep --config=configs/stability/fig2_2_2b.py --workdir=runs/fig2_2_2b \
        --data_dir=DIR

As configuration 2a, with momentum 0.9. The full size needs accelerators.

":small" (a quarter of the channels, 250 to 1,000 images, 4 pairs a size, 200 updates) took 7 min
18 s on 2 shared CPU cores with XLA_FLAGS=--xla_force_host_platform_device_count=2. Stability falls
more slowly than the loss gap, m^-0.60 (-1.12 to -0.17) and m^-2.20 (-3.07 to -1.07), where the
thesis has -0.17 and -0.35, and between the two models accuracy falls by 13 (train) and 16 points
(test), as in the thesis' figure 2.4. Four pairs are too few for an exponent of maxima.
"""

import ml_collections

from lsa_jax.settings import stability
from lsa_jax.settings.stability_networks import configuration


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figures in one of the variants full, small, quick."""
    title = "Stability of ResNet-20 on CIFAR-10 with momentum (configuration 2b)"
    return configuration("2b", variant, {"title": title, "paper": "2b"})


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: trial x size x pair."""
    return stability.sweep(config)
