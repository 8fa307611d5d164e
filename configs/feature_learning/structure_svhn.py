"""Figure 22c, Shi, Wei and Liang 2022: students on SVHN with Gaussian inputs.

    python -m launch.sweep --config=configs/feature_learning/structure_svhn.py --workdir=runs/svhn

Needs --data_dir=DIR with the data set. Teacher ResNet(2), student ResNet(8). The full size needs a
GPU; ":small" is 2,000 images. All else as in structure_cifar10.py.
"""

from lsa_jax.experiments.feature_learning.tables import resnet_students

get_config = resnet_students(
    {
        "title": "Students on SVHN and Gaussian inputs (figure 22c)",
        "data.dataset": "svhn",
        "data.injected": "gaussian",
    },
    teacher=2,
    student=8,
)
