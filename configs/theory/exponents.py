"""Exponents in the number of examples: does a network's error fall faster than its kernels'?

    python -m launch.sweep --config=configs/theory/exponents.py --data_dir=DIR \
        --workdir=runs/theory_exponents

Vyas, Bansal and Nakkiran (2022): the error of a network falls as a larger power of the number of
examples n than that of its NTK at the start and at infinite width, and the NTK after training on a
fixed number of examples does not keep up. Here a CNN on digits in a random corner of a noisy
background and on CIFAR-2, and two layers of 256 on MNIST; the NTK after training on all n, and on
100 examples outside of the pool. Errors are squared distances on the pool's other examples; a power
is fitted for each seed. Tasks, sizes and training are ours: noise and rates are those at which a
network fits 800 examples and reads others. DIR holds mnist/ and cifar-10-batches-bin/. ":small" is
without CIFAR-2, and has 24 seeds, as 16 left a claim open.
"""

from lsa_jax.experiments.theory.learning_curves.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Exponents in the number of examples",
        "num_others": 100,
        "draws": 1,
        "sweep.task": ("digits_corner", "mnist", "cifar2"),
        "sweep.learner": ("network", "ntk_trained", "ntk_fixed", "ntk_infinite", "ntk_start"),
        "sweep.pool": (1437, 4000, 4000),
        "sweep.num_train": (100, 200, 400, 800),
        "sweep.changed": (),
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    small={
        "sweep.task": ("digits_corner", "mnist"),
        "sweep.pool": (1437, 1437, 4000),
        "sweep.seed": tuple(range(24)),
    },
    quick={
        "num_others": 20,
        "steps": 4,
        "sweep.task": ("digits_corner",),
        "sweep.pool": (60, 60, 60),
        "sweep.num_train": (5, 10, 20),
        "sweep.seed": (0, 1),
    },
)
