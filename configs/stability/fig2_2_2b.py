r"""Figures 2.2 to 2.4 (2b), Karp 2024 (thesis): does stability fall as fast as the gap?

    python -m launch.sweep --config=configs/stability/fig2_2_2b.py --workdir=runs/fig2_2_2b \
        --data_dir=DIR

Also figures A.4, A.7, A.10 and A.11 to A.13. As configuration 2a, with momentum 0.9. The full size
needs accelerators; ":small" is ResNet-8 of width 4 on images of 16 x 16, with as many updates as it
takes to fit its examples, in four trials, for a CPU.
"""

from lsa_jax.experiments.stability.settings import configuration

get_config = configuration(
    "2b",
    {"title": "Stability of ResNet-20 on CIFAR-10 with momentum (configuration 2b)", "paper": "2b"},
    small={"sweep.seed": tuple(range(4))},
    quick={"sweep.seed": (0,)},
)
