"""The protocol that the image configurations of Karp et al. (NeurIPS 2021) share."""

from collections.abc import Callable, Mapping
from typing import Any

from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.variants import configurations

_Fields = Mapping[str, Any]

_INTENSITIES = (0.0, 0.25, 0.5, 0.75, 1.0)
_SIGMAS = (0.0, 0.5, 1.0, 1.5, 2.0)

# Figure 4: WRN-10-10 and its finite NTK, 16 x 16 images on 32 x 32 (thesis appendix B.3).
_FIGURE4 = {
    "data.dataset": "cifar10",
    "data.image_size": 16,
    "data.background_size": 32,
    "model.name": "wide_resnet",
    "model.depth": 10,
    "width_factor": 10,
    # A host's chips: each trains one. On CPUs they follow each other.
    "max_replicas": 4,
    "sweep.learner": ("network", "ntk_finite"),
}

# A WRN-10-1 on a subset: the same code on CPU cores.
_ON_CPU = {
    "width_factor": 1,
    "network.batch_size": 50,
    "network.learning_rate": 0.05,
    "network.schedule": "cosine",
    "network.eval_every": 5,
    "network.checkpoint_every": 2,
    "ntk_finite.epochs": 10,
    "ntk_finite.schedule": "cosine",
    "ntk_finite.eval_every": 5,
    "ntk_finite.checkpoint_every": 2,
}

# The kernel is solved exactly, so that it fits its training set; descent leaves the linearised
# WRN-10-1 at 65 % of 10,000 images in 10 epochs. So many images take a core a minute or two.
SMALL = _ON_CPU | {
    "max_replicas": 6,
    "data.num_train": 2000,
    "data.num_test": 500,
    "network.epochs": 20,
    "ntk_finite.method": "regression",
    "sweep.seed": (0, 1, 2),
}

QUICK = _ON_CPU | {
    "max_replicas": 4,
    "data.num_train": 16,
    "data.num_test": 8,
    "network.epochs": 1,
    "network.batch_size": 8,
    "ntk_finite.epochs": 1,
    "ntk_finite.batch_size": 8,
}


# Figure 6, on all images.
_WHOLE_MNIST = {
    "data.dataset": "mnist",
    "data.image_size": 28,
    "model.name": "cnn",
    "model.channels": (8, 16),
    "ntk_infinite.ridge": (1e-4,),
    "ntk_infinite.solver": "conjugate_gradients",
    "sweep.learner": ("ntk_infinite",),
    "sweep.seed": (0,),
}


def figure4(fields: _Fields, **smaller: _Fields) -> Callable[[str], Config]:
    """Returns `get_config` of a panel of figure 4.

    By default its variants are small (for CPU cores) and quick (for tests), at zero and the highest
    noise.
    """
    noise = _SIGMAS if fields["data.background"] == "gaussian" else _INTENSITIES
    ends = {"sweep.noise": (noise[0], noise[-1])}
    smaller = smaller or {"small": SMALL | ends, "quick": QUICK | ends}
    return configurations(SETTINGS, {**_FIGURE4, "sweep.noise": noise, **fields}, **smaller)


def whole_mnist(fields: _Fields, small: _Fields | None = None) -> Callable[[str], Config]:
    """Returns `get_config` of figure 6's infinite NTK on all of MNIST, half a matrix on disk.

    `small` has the fields of that variant; None means 10,000 images.
    """
    quick = {"data.num_train": 200, "data.num_test": 100}
    if fields.get("ntk_infinite.solver") == "nystrom":
        quick["ntk_infinite.centres"] = 20
    small = small or {"data.num_train": 10_000}
    return configurations(SETTINGS, {**_WHOLE_MNIST, **fields}, small=small, quick=quick)
