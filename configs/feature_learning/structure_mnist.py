"""Figures 22a and 25, Shi, Wei and Liang 2022: students on MNIST with Gaussian inputs.

    python -m launch.sweep --config=configs/feature_learning/structure_mnist.py --workdir=runs/fig22

Needs --data_dir=DIR with the data set. Teacher FC(9), students FC(9) and FC(50), half of
the inputs Gaussian. The paper gives no optimiser, epochs or weight of the
regulariser; those in lsa_jax/experiments/feature_learning/input_structure/settings.py are ours.

Five seeds, 3 min 17 s on one core of a 2-core CPU. Test accuracy at the end (the teacher's labels)
of FC(9): 95.7 ± 1.1 % on MNIST, 79.7 ± 7.6 % on Gaussian inputs, 87.7 ± 4.2 % on both; trained on
MNIST directly 92.3 ± 0.5 %. Of FC(50): 95.1 ± 0.5, 72.0 ± 2.1, 83.6 ± 1.1 and 96.9 ± 0.1 %. After
300 steps both have 11 % on Gaussian inputs and 88 or more on MNIST. That FC(50) is at most 2 points
below direct training on MNIST is not shown: 1.8 with a spread of 0.5.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.input_structure import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = {"data.num_train": 20000, "data.num_test": 5000, "sweep.seed": (0, 1)}

_QUICK = {
    "data.num_train": 40,
    "data.num_test": 20,
    "batch_size": 10,
    "teacher_epochs": 1,
    "epochs": 2,
    "sweep.seed": (0,),
    "sweep.direct_size": (3,),
    "sweep.size": (3,),
    "sweep.teacher_size": (3,),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the comparison in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {
            "title": "Students on MNIST and Gaussian inputs (figures 22a, 25)",
            "data.dataset": "mnist",
            "sweep.direct_size": (9, 50),
            "sweep.size": (9, 50),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
