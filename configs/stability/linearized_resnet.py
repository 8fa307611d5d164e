r"""ResNet-20 linearised, asked in section 2.4, Karp 2024 (thesis): is non-convexity needed?

    python -m launch.sweep --config=configs/stability/linearized_resnet.py \
        --workdir=runs/linearized_resnet --data_dir=DIR

Stability of the network beside that of its linearisation at the start, both on CIFAR-10 with
momentum, from one start and in one order; the linearised network keeps the statistics of batch
normalisation at the start, and its loss is convex in its parameters. Karp 2024 (thesis) closes
section 2.4 with the question; it has no such figure. The rate is 0.01, where configuration 2b has
0.1. The full size needs accelerators; ":small" has ResNet-8, three sizes and 600 updates, for a
CPU: as many as single runs of the largest size took to fit.
"""

from lsa_jax.experiments.stability.settings import configuration

get_config = configuration(
    "2b",
    full={
        "title": "Stability of ResNet-20 and of its linearisation",
        "training.learning_rate": 0.01,
        "stops": (50_000, 100_000),
        "sweep.learner": ("resnet", "linearized_resnet"),
        "sweep.seed": (0,),
    },
    small={
        "training.learning_rate": 0.01,
        "training.decay_steps": (),
        "connectivity.sizes": (),
        "stops": (600,),
        "sweep.m": (64, 125, 250),
    },
    quick={
        "training.decay_steps": (3,),
        "connectivity.sizes": (16, 32),
        "stops": (2, 4),
        "sweep.m": (16, 24, 32),
    },
)
