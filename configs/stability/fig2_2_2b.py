"""Figures 2.2 to 2.4, A.4, A.7, A.10 and A.11 to A.13 of configuration 2b, Karp 2024 (thesis).

    python -m launch.sweep --config=configs/stability/fig2_2_2b.py --workdir=runs/fig2_2_2b \
        --data_dir=DIR

As configuration 2a, with momentum 0.9. The full size needs accelerators.

":small" (a quarter of the channels, 250 to 1,000 images, 4 pairs a size, 200 updates) took 12 min
of processor time on one CPU core. Stability falls more slowly than the loss gap, m^-0.53 (-0.79 to
-0.20) and m^-1.78 (-2.46 to -0.88), where the thesis has -0.17 and -0.35, and between the two
models accuracy falls by 16 (train) and 4 points (test), as in the thesis' figure 2.4. Four pairs
are too few for an exponent of maxima.
"""

import ml_collections

from lsa_jax.experiments.stability.network_settings import configuration


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figures in one of the variants full, small, quick."""
    title = "Stability of ResNet-20 on CIFAR-10 with momentum (configuration 2b)"
    return configuration("2b", variant, {"title": title, "paper": "2b"})
