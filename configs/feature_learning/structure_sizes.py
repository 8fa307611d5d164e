"""Figure 26, Shi, Wei and Liang 2022: a student's best size follows its teacher's.

    python -m launch.sweep --config=configs/feature_learning/structure_sizes.py --workdir=runs/sizes

Needs --data_dir=DIR with the data set. Test loss against size of networks FC(m) on MNIST, and
of students on Gaussian inputs alone that teachers FC(9), FC(50) and FC(500) label. The paper gives
no optimiser, epochs or weight of the regulariser; those in the experiment's settings are ours.

Gaussian inputs have each pixel's mean and variance in MNIST; the paper does not say which Gaussian
it takes. This law was chosen after a run with standard Gaussian inputs
(--config.data.gaussian_law=standard), where no student learns the labels of FC(500).

Five seeds; ":small" has 20,000 images and fewer sizes. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.input_structure.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

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

get_config = configurations(
    SETTINGS,
    {
        "title": "Loss against size, by teacher (figure 26)",
        "data.dataset": "mnist",
        "data.gaussian_law": "pixelwise",
        "sweep.direct_size": (2, 3, 5, 9, 15, 25, 50, 100, 250, 500),
        "sweep.size": (2, 3, 5, 9, 15, 25, 50, 100, 250, 500),
        "sweep.teacher_size": (9, 50, 500),
        "sweep.share": (1.0,),
    },
    small=_SMALL,
    quick=_QUICK,
)
