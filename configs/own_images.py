"""Your own images, in a folder a class: does a network learn their features, or fit a kernel?

    python -m launch.sweep --config=configs/own_images.py --config.data.folder=NAME \
        --data_dir=DIR --workdir=runs/own_images

DIR/NAME holds a folder of pictures a class, or train/ and test/ with such folders. Pictures become
squares of 32 x 32 pixels (`--config.data.image_size`, `--config.data.fit`). Learning curves of a
CNN, of its fixed kernels (finite and infinite NTK) and of the two that learn (NTK after training,
recursive feature machine), and whether the network is lazy or rich, by the definition in
docs/diagnose.md. Numbers of examples are `--config.sweep.num_train="(100, 200)"`; each larger set
contains the smaller ones. `--config.model.name=my_model.py:make` takes a network of your own.
":small": up to 500 images, one seed.
"""

from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_RIDGES = tuple(10.0**power for power in range(-6, 2))

_SMALL = {"sweep.num_train": (125, 250, 500), "sweep.seed": (0,)}

_QUICK = {
    "network.epochs": 1,
    "ntk_finite.epochs": 1,
    "rfm.updates": 1,
    "rfm.points": 10,
    "sweep.num_train": (20, 40),
    "sweep.seed": (0,),
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "Lazy or rich",
        "figure_axis": "num_train",
        "data.dataset": "folder",
        "data.folder": "own_images",
        "data.image_size": 32,
        "data.background_size": 32,
        "data.background": "none",
        "data.placement": "fixed_corner",
        "model.name": "cnn",
        "model.channels": (32, 64),
        "network.epochs": 60,
        "network.batch_size": 50,
        "network.learning_rate": 0.05,
        "network.warmup_epochs": 5.0,
        "network.schedule": "cosine",
        # As `lsa_jax.diagnose` takes them.
        "ntk_finite.method": "regression",
        "ntk_finite.parameterization": "standard",
        "ntk_finite.ridge": _RIDGES,
        "ntk_infinite.ridge": _RIDGES,
        "ntk_trained.ridge": _RIDGES,
        "rfm.updates": 3,
        "rfm.points": 50,
        "rfm.ridge": (1e-3,),
        "measures": ("kernel_distance", "target_alignment", "effective_rank"),
        "sweep.learner": ("network", "ntk_trained", "rfm", "ntk_infinite", "ntk_finite"),
        "sweep.noise": (0.0,),
        "sweep.num_train": (125, 250, 500, 1000, 2000),
        "sweep.seed": (0, 1, 2),
    },
    small=_SMALL,
    quick=_QUICK,
)
