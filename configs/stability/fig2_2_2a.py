"""Figures 2.2 to 2.4 (2a), Karp 2024 (thesis): does stability fall as fast as the gap?

    python -m launch.sweep --config=configs/stability/fig2_2_2a.py --workdir=runs/2a --data_dir=DIR

Also figures A.3, A.6, A.9, A.11 to A.13 and A.15. ResNet-20 on CIFAR-10, batches of 128, rate 0.1
that falls at 32,000 and 48,000 updates, no momentum: three trials, eight sizes, 40 pairs, after
50,000, 100,000 and 150,000 updates; 76 places on the line through both models at the smallest and
the largest size. The full size needs accelerators.
"""

from lsa_jax.experiments.stability.settings import configuration

get_config = configuration(
    "2a", {"title": "Stability of ResNet-20 on CIFAR-10 (configuration 2a)", "paper": "2a"}
)
