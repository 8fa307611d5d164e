"""Figures 22a and 25, Shi, Wei and Liang 2022: students on MNIST with Gaussian inputs.

    python -m launch.sweep --config=configs/feature_learning/structure_mnist.py --workdir=runs/fig22

Needs --data_dir=DIR with the data set. Students FC(9) and FC(50) learn the union of MNIST and as
many Gaussian inputs, and, as a control, the teacher's labels of MNIST alone. Teachers are FC(9), as
in the paper, and FC(25): networks of eight sizes on MNIST say which one algorithm 1 chooses. The
paper gives no optimiser, epochs or weight of the regulariser; those in
lsa_jax/experiments/feature_learning/input_structure/settings.py are ours.

Halves of both, teacher FC(9), five seeds: test accuracy at the end (the teacher's labels) of FC(9)
95.7 ± 1.1 % on MNIST, 79.7 ± 7.6 % on Gaussian inputs; trained on MNIST directly 92.3 ± 0.5 %. Of
FC(50): 95.1 ± 0.5, 72.0 ± 2.1 and 96.9 ± 0.1 %. With the union the full size has not been run.

":small" (20,000 images, two seeds, 45 min on a busy machine): the first minimum on MNIST is at 25
and at 15, not at 9. Labelled by FC(9), students FC(9) are right on 93.3 ± 0.9 % of the MNIST part
and 71.6 ± 2.1 % of the Gaussian one, FC(50) on 94.8 ± 1.2 and 60.0 ± 6.5 %; the same labels alone
give 92.0 ± 0.6 and 93.4 ± 0.6 %. Labelled by FC(25): 89.2 ± 0.6 and 29.7 ± 1.5 %, 93.5 ± 0.1 and
31.6 ± 3.6 %; alone 90.6 ± 0.1 and 94.0 ± 0.1 %.
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
            "sweep.direct_size": (2, 3, 5, 9, 15, 25, 50, 100),
            "sweep.teacher_size": (9, 25),
            "sweep.size": (9, 50),
            "sweep.share": (0.0, 0.5),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
