"""Figure 23b, Shi, Wei and Liang 2022: students on SVHN with Tiny ImageNet.

    python -m launch.sweep --config=configs/feature_learning/tiny_svhn.py --workdir=runs/tiny

Needs --data_dir=DIR with the data sets. Teacher ResNet(2), student ResNet(8). The full size needs a
GPU; ":small" is 2,000 images. All else as in structure_cifar10.py.
"""

from lsa_jax.experiments.feature_learning.tables import resnet_students

get_config = resnet_students(
    {
        "title": "Students on SVHN and Tiny ImageNet or Gaussian inputs (figure 23b)",
        "data.dataset": "svhn",
        "data.injected": "tiny_imagenet",
        "sweep.injected": ("tiny_imagenet", "gaussian"),
    },
    teacher=2,
    student=8,
)
