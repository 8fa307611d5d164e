"""Figures 22b and 24, Shi, Wei and Liang 2022: students on CIFAR-10 with Gaussian inputs.

    python -m launch.sweep --config=configs/feature_learning/structure_cifar10.py --workdir=runs/c10

Needs --data_dir=DIR with the data set. Teacher ResNet(5), student ResNet(9). The full size needs a
GPU; ":small" is 2,000 images. The paper gives no optimiser, epochs or weight of the regulariser;
ours are in tables.py and input_structure/settings.py of lsa_jax/experiments/feature_learning. Batch
statistics are those of the batch at hand, in tests too.

":small", one seed, 11 min on one core: with shares of 0.25 and 0.75 the student is right on 55 and
35 % of CIFAR-10 (trained on it directly 37 %) and on 21 and 17 % of the Gaussian inputs. With a
share of 0.25 the whole mixture is not below direct training: the teacher's labels are easier than
the true ones for networks of that size. With 0.75 the student is 2.2 points below direct training,
and was 6 above it in an earlier version, which rounds otherwise: one seed does not tell.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.tables import resnet_students


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the comparison in one of the variants full, small, quick."""
    fields = {
        "title": "Students on CIFAR-10 and Gaussian inputs (figures 22b and 24)",
        "data.dataset": "cifar10",
        "data.injected": "gaussian",
        "sweep.share": (0.0, 0.25, 0.5, 0.75),
    }
    return resnet_students(
        variant, fields, teacher=5, student=9, small={"sweep.share": (0.0, 0.25, 0.75)}
    )
