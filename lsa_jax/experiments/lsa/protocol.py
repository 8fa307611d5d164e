"""The protocol that the image configurations of Karp et al. (NeurIPS 2021) share."""

from typing import Any

import ml_collections

from lsa_jax.experiments.lsa.noise_curves import settings
from lsa_jax.sweep.variants import choose, set_fields

_INTENSITIES = (0.0, 0.25, 0.5, 0.75, 1.0)
_SIGMAS = (0.0, 0.5, 1.0, 1.5, 2.0)

# A WRN-10-1 on a subset: the same code where there are two CPU cores.
_SMALL = {
    "width_factor": 1,
    "max_replicas": 4,
    "data.num_train": 5000,
    "data.num_test": 1000,
    "network.epochs": 10,
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

# What `_SMALL` leaves undecided: twice its images and three seeds.
_MEDIUM = _SMALL | {
    "max_replicas": 6,
    "data.num_train": 10_000,
    "data.num_test": 2000,
    "sweep.seed": (0, 1, 2),
}

# Where there are more runs than a panel of figure 4 has.
_SMALLER = _SMALL | {"data.num_train": 2500}

_QUICK = _SMALL | {
    "data.num_train": 16,
    "data.num_test": 8,
    "network.epochs": 1,
    "network.batch_size": 8,
    "ntk_finite.epochs": 1,
    "ntk_finite.batch_size": 8,
}


def figure4(variant: str, fields: dict[str, Any]) -> ml_collections.ConfigDict:
    """Returns one panel of figure 4: WRN-10-10 and its finite NTK, 16 x 16 images on 32 x 32.

    Args:
        variant: "full" (thesis appendix B.3), "medium" and "small" (two CPU cores) or "quick"
            (tests).
        fields: what is the panel's own: title, data set, task, background, placement.

    Raises:
        InputError: there is no such variant, or no such field.
    """
    gaussian = fields["data.background"] == "gaussian"
    noise = _SIGMAS if gaussian else _INTENSITIES
    config = set_fields(
        settings.default_config(),
        {
            "data.dataset": "cifar10",
            "data.image_size": 16,
            "data.background_size": 32,
            "model.name": "wide_resnet",
            "model.depth": 10,
            "width_factor": 10,
            # A host's chips: each trains one. On CPUs they follow each other.
            "max_replicas": 4,
            "sweep.learner": ("network", "ntk_finite"),
            "sweep.noise": noise,
            **fields,
        },
    )
    ends = {"sweep.noise": (noise[0], noise[-1])}
    variants = {"small": _SMALL, "quick": _QUICK, "medium": _MEDIUM}
    return choose(config, variant, {name: own | ends for name, own in variants.items()})


def table_b1(variant: str) -> ml_collections.ConfigDict:
    """Returns table B.1 of the thesis: figure 4's panel on Gaussian noise, by placement and size.

    Args:
        variant: "full", "small" (16 on 32 pixels, a random and a fixed corner) or "quick".

    Raises:
        InputError: there is no such variant.
    """
    config = figure4(
        "full",
        {
            "title": "CIFAR-2 on Gaussian noise, by placement and size",
            "paper_item": "lsa/table_b1",
            "data.task": "cifar2",
            "data.background": "gaussian",
            "sweep.noise": (0.0, 0.5, 1.0, 2.0),
            "sweep.placement": ("random_location", "random_corner", "fixed_corner"),
            "sweep.size": ((16, 32), (32, 64)),
        },
    )
    fewer = {
        "sweep.noise": (0.0, 2.0),
        "sweep.placement": ("random_corner", "fixed_corner"),
        "sweep.size": ((16, 32),),
    }
    return choose(config, variant, {"small": _SMALLER | fewer, "quick": _QUICK | fewer})


def growing_background(variant: str) -> ml_collections.ConfigDict:
    """Returns the experiment of section 6 on full-intensity photographs of growing size.

    Args:
        variant: "full", "small" (16 to 48 pixels) or "quick".

    Raises:
        InputError: there is no such variant.
    """
    config = figure4(
        "full",
        {
            "title": "CIFAR-2 on photographs of growing size",
            "figure_axis": "background_size",
            "data.task": "cifar2",
            "data.background": "photographs",
            "data.photographs": "plants",
            "data.placement": "random_location",
            # At every size what the paper uses on 64 x 64, so that the size alone changes.
            "network.batch_size": 50,
            "network.learning_rate": 0.05,
            "sweep.noise": (1.0,),
            "sweep.size": tuple((16, side) for side in (16, 24, 32, 48, 64)),
        },
    )
    small = {"sweep.size": ((16, 16), (16, 32), (16, 48))}
    quick = {"sweep.size": ((16, 16), (16, 24))}
    return choose(config, variant, {"small": _SMALLER | small, "quick": _QUICK | quick})


def whole_mnist(
    variant: str, fields: dict[str, Any], small: dict[str, Any] | None = None
) -> ml_collections.ConfigDict:
    """Returns the regression of figure 6's infinite NTK on all of MNIST, half a matrix on disk.

    Args:
        variant: "full", "small" (10,000 images) or "quick" (tests).
        fields: what differs: title, background, solver.
        small: what "small" changes instead.

    Raises:
        InputError: there is no such variant, or no such field.
    """
    config = set_fields(
        settings.default_config(),
        {
            "data.dataset": "mnist",
            "data.image_size": 28,
            "model.name": "cnn",
            "model.channels": (8, 16),
            "ntk_infinite.ridge": (1e-4,),
            "ntk_infinite.solver": "conjugate_gradients",
            "sweep.learner": ("ntk_infinite",),
            "sweep.seed": (0,),
            **fields,
        },
    )
    quick = {"data.num_train": 200, "data.num_test": 100}
    if config.ntk_infinite.solver == "nystrom":
        quick["ntk_infinite.centres"] = 20
    return choose(config, variant, {"small": small or {"data.num_train": 10_000}, "quick": quick})
