r"""Figure 5, Karp et al. 2021, and the placements of thesis B.4: what the images look like.

    python -m launch.sweep --config=configs/lsa/fig5_placements.py --workdir=runs/fig5_placements \
        --data_dir=DIR

DIR holds cifar-10-batches-bin/ and photographs below plants/. One row for each background
(Gaussian, photographs, distractors: CIFAR-Vehicles) and placement, one column a noise level; the
picture is examples.png. The paper's figure has intensity 0.75. ":small" shows one image a panel
instead of three, ":quick" handwritten digits, which need no data. All run on a CPU.
"""

import ml_collections

from lsa_jax.experiments.lsa.image_examples import settings
from lsa_jax.sweep.variants import choose, set_fields

_QUICK = {
    "data.dataset": "digits",
    "data.image_size": 8,
    "data.background_size": 16,
    "num_examples": 2,
    "sweep.background": ("gaussian",),
    "sweep.std": (0.0, 1.0),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the picture in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {
            "title": "Images on backgrounds (figure 5)",
            "data.dataset": "cifar10",
            "data.num_train": 100,
            "data.num_test": 10,
            "data.image_size": 16,
            "data.background_size": 32,
            "data.photographs": "plants",
            "sweep.background": ("gaussian", "photographs", "distractors"),
        },
    )
    return choose(config, variant, {"small": {"num_examples": 1}, "quick": _QUICK})
