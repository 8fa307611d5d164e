"""Figure 26, Shi, Wei and Liang 2022: a student's best size follows its teacher's.

    python -m launch.sweep --config=configs/feature_learning/structure_sizes.py --workdir=runs/sizes

Needs --data_dir=DIR with the data set. Test loss against size of networks FC(m) on MNIST, and
of students on Gaussian inputs alone that teachers FC(9), FC(50) and FC(500) label. The paper gives
no optimiser, epochs or weight of the regulariser; those in the experiment's settings are ours.

Gaussian inputs have each pixel's mean and variance in MNIST. Then students learn a teacher of size
500: one seed, students of 50, 250 and 500 units, have a test loss of 0.88, 2.08 and 2.22 and are
right on 69.8, 65.0 and 64.7 %. Other teachers and seeds have not been run with this law.

With standard Gaussian inputs (--config.data.gaussian_law=standard), five seeds, 56 min on one core
of a busy 2-core CPU: first minimum of the test loss: 25 on MNIST, 15
for students of FC(9), 25 of FC(50). Labels of FC(500), a quadratic form of almost full rank, nobody
learns from 60,000 inputs: the loss stays at a constant's, and rises where size lets students fit.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.input_structure import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = {
    "data.num_train": 20_000,
    "data.num_test": 5000,
    "sweep.direct_size": (5, 9, 15, 25, 50, 150),
    "sweep.size": (5, 9, 15, 25, 50, 150),
    "teacher_epochs": 8,
    "eval_every": 12,
}

_QUICK = {
    "data.num_train": 40,
    "data.num_test": 20,
    "batch_size": 10,
    "teacher_epochs": 1,
    "epochs": 2,
    "sweep.seed": (0,),
    "sweep.direct_size": (2, 3),
    "sweep.size": (2, 3),
    "sweep.teacher_size": (2, 3),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the comparison in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {
            "title": "Loss against size, by teacher (figure 26)",
            "data.dataset": "mnist",
            "data.gaussian_law": "pixelwise",
            "sweep.direct_size": (2, 3, 5, 9, 15, 25, 50, 100, 250, 500),
            "sweep.size": (2, 3, 5, 9, 15, 25, 50, 100, 250, 500),
            "sweep.teacher_size": (9, 50, 500),
            "sweep.share": (1.0,),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
