"""Figure 23a, Shi, Wei and Liang 2022: students on CIFAR-10 with Tiny ImageNet.

    python -m launch.sweep --config=configs/feature_learning/tiny_cifar10.py --workdir=runs/tiny

Needs --data_dir=DIR with the data sets. Teacher ResNet(5), student ResNet(9). The full size needs a
GPU; ":small" is 2,000 images. All else as in structure_cifar10.py.
"""

from lsa_jax.experiments.feature_learning.tables import resnet_students

get_config = resnet_students(
    {
        "title": "Students on CIFAR-10 and Tiny ImageNet or Gaussian inputs (figure 23a)",
        "data.dataset": "cifar10",
        "data.injected": "tiny_imagenet",
        "sweep.injected": ("tiny_imagenet", "gaussian"),
    },
    teacher=5,
    student=9,
)
