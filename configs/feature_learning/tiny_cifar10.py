"""Figure 23a, Shi, Wei and Liang 2022: students on CIFAR-10 with Tiny ImageNet.

    python -m launch.sweep --config=configs/feature_learning/tiny_cifar10.py --workdir=runs/tiny

Needs --data_dir=DIR with the data sets. Teacher ResNet(5), student ResNet(9). The full size needs a
GPU; ":small" is 2,000 images. The paper gives no optimiser, epochs or weight of the regulariser;
ours are below and in lsa_jax/settings/input_structure.py. Batch statistics are those of the batch
at hand, in tests too.
"""

import ml_collections

from lsa_jax.settings import input_structure
from lsa_jax.settings.variants import choose, set_fields

_SMALL = {
    "data.num_train": 2000,
    "data.num_test": 500,
    "batch_size": 50,
    "teacher_epochs": 6,
    "epochs": 6,
    "sweep.seed": (0,),
}

_QUICK = {
    "data.num_train": 20,
    "data.num_test": 10,
    "batch_size": 10,
    "teacher_epochs": 1,
    "epochs": 1,
    "sweep.seed": (0,),
    "sweep.teacher_size": (1,),
    "sweep.size": (1,),
    "sweep.direct_size": (1,),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the comparison in one of the variants full, small, quick."""
    config = set_fields(
        input_structure.default_config(),
        {
            "title": "Students on CIFAR-10 and Tiny ImageNet (figure 23a)",
            "data.dataset": "cifar10",
            "data.injected": "tiny_imagenet",
            "model": "resnet",
            "optimizer": "momentum",
            "learning_rate": 0.05,
            "batch_size": 128,
            "teacher_epochs": 20,
            "epochs": 20,
            "sweep.teacher_size": (5,),
            "sweep.size": (9,),
            "sweep.direct_size": (9,),
            "sweep.share": (0.5,),
            "sweep.seed": (0, 1, 2),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: networks on the data set directly, then students."""
    return input_structure.sweep(config)
