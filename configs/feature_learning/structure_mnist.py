"""Figures 22a and 25, Shi, Wei and Liang 2022: students on MNIST with Gaussian inputs.

    python -m launch.sweep --config=configs/feature_learning/structure_mnist.py --workdir=runs/fig22

Needs --data_dir=DIR with the data set. Students FC(9) and FC(50) learn the union of MNIST and as
many Gaussian inputs, and, as a control, the teacher's labels of MNIST alone. Teachers are FC(9), as
in the paper, and FC(25), which algorithm 1 chose in one of the first two seeds: networks of
eight sizes on MNIST say which one it chooses. The paper gives no optimiser, epochs or weight of the
regulariser; those in lsa_jax/experiments/feature_learning/input_structure/settings.py are ours.

All of MNIST and twelve seeds; ":small" is 20,000 images and four seeds. ":chosen" has twelve seeds
on those images, and teachers of 9, 15, 25, 50 and 100 units: the paper's, and the sizes that
algorithm 1 chose in four seeds (in one of them 50 or 100, by rounding alone), so that most seeds
have their own teacher, too. All run on a CPU.
"""

from lsa_jax.experiments.feature_learning.input_structure.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {"data.num_train": 20000, "data.num_test": 5000, "sweep.seed": (0, 1, 2, 3)}

_CHOSEN = _SMALL | {
    "sweep.teacher_size": (9, 15, 25, 50, 100),
    "sweep.seed": tuple(range(12)),
}

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

get_config = configurations(
    SETTINGS,
    {
        "title": "Students on MNIST and Gaussian inputs (figures 22a, 25)",
        "data.dataset": "mnist",
        "sweep.direct_size": (2, 3, 5, 9, 15, 25, 50, 100),
        "sweep.teacher_size": (9, 25),
        "sweep.size": (9, 50),
        "sweep.share": (0.0, 0.5),
        "sweep.seed": tuple(range(12)),
    },
    small=_SMALL,
    quick=_QUICK,
    chosen=_CHOSEN,
)
