"""Figure 3 (a), Allen-Zhu and Li 2019: all layers of the ResNet trained on beta F + alpha G(F).

    python -m launch.sweep --config=configs/resnet/fig3a.py --workdir=runs/fig3a

alpha = 0.3 and beta from 1 to 0: the composite signal is learned only where the base signal is the
larger one. The paper does not give N; with 1,000 examples the threshold is at beta = alpha, with
500 it is higher.
"""

import ml_collections

from lsa_jax.settings import hierarchical
from lsa_jax.settings.variants import choose, set_fields

_SMALL = {
    "search.learning_rates": (0.05, 0.1),
    "search.weight_decays": (0.0005, 0.001, 0.002, 0.005),
    "search.rung_epochs": (100, 400),
    "search.rung_keep": (4, 2),
    "search.kernel_rung_keep": (2, 1),
    "sweep.seed": (0,),
    "sweep.width": (200,),
}

_QUICK = {
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
    "sweep.beta": (1.0, 0.0),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick."""
    config = set_fields(
        hierarchical.default_config(),
        {
            "title": "Test error on beta F + alpha G(F), all layers trained (figure 3 a)",
            "question": "beta",
            "num_train": 1000,
            "search.learning_rates": (0.02, 0.05, 0.1, 0.2),
            "search.weight_decays": (0.0005, 0.001, 0.002, 0.005),
            "search.rung_epochs": (30, 100, 200, 400),
            "search.rung_keep": (12, 8, 5, 3),
            "search.kernel_rung_keep": (8, 4, 2, 1),
            "sweep.series": (("3resnet", "all"),),
            "sweep.seed": (0, 1, 2),
            "sweep.beta": (1.0, 0.5, 0.3, 0.2, 0.0),
            "sweep.width": (20, 50, 100, 200, 500, 1000),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: beta x width x seed."""
    return hierarchical.sweep(config)
