"""Parts that configurations of the tables and figures of Shi, Wei and Liang (ICLR 2022) share.

Variants are full, small (fewer examples, neurons, updates or seeds) and quick (tests).
"""

from collections.abc import Callable, Mapping
from typing import Any

from lsa_jax.experiments.feature_learning.input_structure import settings as input_structure
from lsa_jax.experiments.feature_learning.learning import settings as learning
from lsa_jax.experiments.feature_learning.weight_clouds import settings as weight_clouds
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.variants import configurations

Fields = Mapping[str, Any]
GetConfig = Callable[[str], Config]

_SMALL = {
    "data.num_train": 20_000,
    "data.num_test": 5000,
    "m": 200,
    "memorise.epochs": 40,
    "eval_every": 50,
    "sweep.seed": (0, 1),
    "sweep.ntk_rate": (),
    "sweep.ntk_steps": (),
    "sweep.ntk_long_rate": None,
    "sweep.random_features_rate": (),
    "sweep.more_seed": (),
}

_QUICK = {
    "data.num_train": 100,
    "data.num_test": 50,
    "m": 10,
    "batch_size": 20,
    "steps": 8,
    "eval_every": 4,
    "memorise.epochs": 1,
    "sweep.seed": (0, 1),
    "sweep.ntk_rate": (),
    "sweep.random_features_rate": (1.0,),
    "sweep.first_rate": (1.0,),
    "sweep.leftover": (),
    "sweep.ntk_steps": (),
    "sweep.ntk_long_rate": None,
    "sweep.more_seed": (),
}


def table(fields: Fields, small: Fields | None = None) -> GetConfig:
    """Returns `get_config` of one table; `small` has further fields of its small variant."""
    return configurations(learning.SETTINGS, fields, small=_SMALL | dict(small or {}), quick=_QUICK)


def unbalanced(percent: int, more: Fields | None = None) -> GetConfig:
    """Returns `get_config` of half of table 4: so many percent of the labels are -1.

    `more` has further fields of the full variant.
    """
    return table(
        {
            "title": f"Parity labels, {percent} % negative (table 4)",
            "paper_item": f"feature_learning/table4_{percent}",
            "data.negative_share": percent / 100,
            "class_weights": "all_steps",
            "ntk_rate": 1e-4,
            "random_features_rate": 0.1,
            "sweep.ntk_rate": (1e-5, 1e-3),
            "sweep.ntk_steps": (6000, 24_000),
            "sweep.ntk_long_rate": 3e-4,
            "sweep.random_features_rate": (0.03, 0.3),
            "sweep.class_weights": ("first_steps",),
            "sweep.weighted_learner": ("network", "ntk", "random_features"),
            **(more or {}),
        }
    )


_QUICK_NEURONS = {
    "m": 6,
    "batch_size": 16,
    "data.num_train": 40,
    "data.num_test": 20,
    "pictures": (0, 2),
    "sweep.seed": (0, 1),
}


def mixture(*, d: int, k: int, sigma_r: float, pictures: tuple[int, ...]) -> GetConfig:
    """Returns `get_config` of one experiment of table 6: a network on a mixture of 2^k Gaussians.

    `pictures` are updates after which the weights are drawn; half as many if "small".
    """
    fields = {
        "title": f"Mixture of 2^{k} Gaussians, d = {d} (table 6)",
        "data.dataset": "gaussian_mixture",
        "data.d": d,
        "data.k": k,
        "data.sigma_r": sigma_r,
        "m": 800,
        "init_std": d**-0.5,
        "sweep.init_std": (0.1 * d**-0.5, d**-0.5),
        "output_std": 800**-0.5,
        "loss": "logistic",
        "learning_rate": 0.1,
        "momentum": 0.9,
        "batch_size": 200,
        "pictures": pictures,
        "clusters": 2**k,
    }
    small = {
        "m": 400,
        "data.num_train": 10_000,
        "sweep.seed": (0, 1),
        "pictures": tuple(updates // 2 for updates in pictures),
    }
    quick = _QUICK_NEURONS | {"clusters": 4, "data.d": 8, "data.k": 2}
    return configurations(weight_clouds.SETTINGS, fields, small=small, quick=quick)


def neurons(fields: Fields) -> GetConfig:
    """Returns `get_config` of the neurons of a two-layer network on two classes of images."""
    small = {"sweep.seed": (0, 1)}
    return configurations(weight_clouds.SETTINGS, fields, small=small, quick=_QUICK_NEURONS)


_SMALL_STUDENTS = {
    "data.num_train": 2000,
    "data.num_test": 500,
    "batch_size": 50,
    "teacher_epochs": 6,
    "epochs": 6,
    "sweep.seed": (0,),
}

_QUICK_STUDENTS = {
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


def resnet_students(
    fields: Fields, *, teacher: int, student: int, small: Fields | None = None
) -> GetConfig:
    """Returns `get_config` of one panel of figures 22 and 23: ResNet(m) students on images.

    `teacher` and `student` are their m; `small` has further fields of the small variant.
    """
    own = {
        "model": "resnet",
        "optimizer": "momentum",
        "learning_rate": 0.05,
        "batch_size": 128,
        "teacher_epochs": 20,
        "epochs": 20,
        "sweep.teacher_size": (teacher,),
        "sweep.size": (student,),
        # Among these algorithm 1 finds the teacher's: it needs one on either side.
        "sweep.direct_size": (teacher // 2, teacher, student, 2 * student),
        "sweep.share": (0.0, 0.5),
    }
    variants = {"small": _SMALL_STUDENTS | dict(small or {}), "quick": _QUICK_STUDENTS}
    return configurations(input_structure.SETTINGS, own | {**fields}, **variants)
