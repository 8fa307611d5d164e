"""What configurations of figures of Allen-Zhu and Li (2019) share."""

import ml_collections

from lsa_jax.experiments.resnet.hierarchical import settings
from lsa_jax.sweep.variants import choose, set_fields

# When a full search drops candidates. Without dropping any, those that were best after 800 epochs
# had been as low as 17th of 30 after 50 epochs, 6th after 100 and after 400, when the rate falls,
# and 2nd soon after that.
RUNGS = {
    "search.rung_epochs": (50, 100, 200, 400, 500),
    "search.rung_keep": (20, 16, 9, 7, 3),
    "search.kernel_rung_keep": (8, 4, 2, 1, 1),
}

# When a search of six candidates does. In figure 2 (a) the one of them that was best after 800
# epochs had been as low as 5th after 100 epochs and 4th after 200, and 1st after 500.
SMALL_RUNGS = {
    "search.rung_epochs": (200, 500),
    "search.rung_keep": (4, 2),
    "search.kernel_rung_keep": (2, 1),
}

# What a run on nearly nothing has in common, for tests.
QUICK = {
    "d": 8,
    "num_train": 40,
    "num_test": 30,
    "batch_size": 20,
    "epochs": 2,
    "fall_epoch": 1,
    "eval_every": 2,
    "search.learning_rates": (0.05,),
    "search.weight_decays": (0.001,),
    "search.rung_epochs": (),
    "search.rung_keep": (),
    "search.kernel_rung_keep": (),
    "sweep.seed": (0,),
    "sweep.width": (10,),
}

# The same for networks of small norm, figure 4.
MINIMAL_NORM_QUICK = {
    "d": 8,
    "num_train": 40,
    "num_test": 30,
    "small_width": 20,
    "steps": 20,
    "batch_size": 20,
    "epochs": 4,
    "fall_epoch": 2,
    "eval_every": 2,
    "search.learning_rates": (1.0, 1e30),
    "search.weight_decays": (1e-5,),
    "search.check_epoch": 2,
    "sweep.penalty": (1e-3, 1e-2),
    "sweep.hand_width": (20,),
    "sweep.width": (10,),
}


def figure3(
    variant: str,
    *,
    panel: str,
    trained: str,
    num_train: tuple[int, ...],
    weight_decays: tuple[float, ...],
    learning_rates: tuple[float, ...],
    small_rates: tuple[float, ...],
) -> ml_collections.ConfigDict:
    """Returns one panel: the ResNet's error on beta F + alpha G(F) against beta.

    Args:
        variant: "full", "small" (one width and seed) or "quick" (tests).
        panel: "a" or "b".
        trained: which layers: "all" or "hidden".
        num_train: N, one or more.
        weight_decays: that are searched.
        learning_rates: likewise.
        small_rates: learning rates that the small variant searches.

    Raises:
        InputError: there is no such variant.
    """
    title = f"Test error on beta F + alpha G(F), {trained} layers trained (figure 3 {panel})"
    config = set_fields(
        settings.default_config(),
        RUNGS
        | {
            "title": title,
            "question": "beta",
            "sweep.num_train": num_train,
            "search.learning_rates": learning_rates,
            "search.weight_decays": weight_decays,
            "sweep.series": (("3resnet", trained),),
            "sweep.seed": (0, 1, 2),
            "sweep.beta": (1.0, 0.5, 0.3, 0.2, 0.0),
            "sweep.width": (20, 50, 100, 200, 500, 1000),
        },
    )
    small = SMALL_RUNGS | {
        "search.learning_rates": small_rates,
        "sweep.seed": (0,),
        "sweep.width": (200,),
    }
    quick = QUICK | {"sweep.beta": (1.0, 0.0), "sweep.num_train": (40,)}
    return choose(config, variant, {"small": small, "quick": quick})
