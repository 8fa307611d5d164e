"""Figures 22b and 24, Shi, Wei and Liang 2022: students on CIFAR-10 with Gaussian inputs.

    python -m launch.sweep --config=configs/feature_learning/structure_cifar10.py --workdir=runs/c10

Needs --data_dir=DIR with the data set. Teacher ResNet(5), student ResNet(9), and networks of four
sizes on the data set directly, of which algorithm 1 takes the teacher's. The full size needs a GPU;
":small" is 2,000 images and three seeds. The paper gives no optimiser, epochs or weight of the
regulariser; ours are in tables.py and input_structure/settings.py of
lsa_jax/experiments/feature_learning. Batch statistics are those of the batch at hand, in tests too.
"""

from lsa_jax.experiments.feature_learning.tables import resnet_students

get_config = resnet_students(
    {
        "title": "Students on CIFAR-10 and Gaussian inputs (figures 22b and 24)",
        "data.dataset": "cifar10",
        "data.injected": "gaussian",
        "sweep.share": (0.0, 0.25, 0.5, 0.75),
    },
    teacher=5,
    student=9,
    small={"sweep.seed": (0, 1, 2)},
)
