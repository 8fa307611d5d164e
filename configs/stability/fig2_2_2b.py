"""Figures 2.2 to 2.4, A.4, A.7, A.10 and A.11 to A.13 of configuration 2b, Karp 2024 (thesis).

    python -m launch.sweep --config=configs/stability/fig2_2_2b.py --workdir=runs/fig2_2_2b \
        --data_dir=DIR

As configuration 2a, with momentum 0.9. The full size needs accelerators.
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
