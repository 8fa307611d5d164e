r"""Figures 2.2 to 2.4 (1a), Karp 2024 (thesis): does stability fall as fast as the gap?

    python -m launch.sweep --config=configs/stability/fig2_2_1a.py --workdir=runs/fig2_2_1a \
        --data_dir=DIR

Also figures A.2, A.5, A.8 and A.11 to A.14. ResNet-20 on SVHN, batches of 32, rate 0.01, no
momentum: three trials, eight sizes, 40 pairs, after 50,000, 100,000 and 150,000 updates; 76 places
on the line through both models at the smallest and the largest size. The full size needs
accelerators; `:small` is on CIFAR-10, in three trials, for a CPU.
"""

from lsa_jax.experiments.stability.settings import configuration

get_config = configuration(
    "1a",
    {"title": "Stability of ResNet-20 on SVHN (configuration 1a)", "paper": "1a"},
    small={"sweep.seed": (0, 1, 2)},
    quick={"sweep.seed": (0,)},
)
