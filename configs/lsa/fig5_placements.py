r"""Figure 5, Karp et al. 2021, and the placements of thesis B.4: examples of the images.

    python -m launch.sweep --config=configs/lsa/fig5_placements.py --workdir=runs/fig5_placements \
        --data_dir=DIR

DIR holds cifar-10-batches-bin/ and photographs below plants/. One row for each background
(Gaussian, photographs, distractors: CIFAR-Vehicles) and placement, one column a noise level; the
picture is examples.png. The paper's figure has intensity 0.75. ":small" shows one image a panel
instead of three, ":quick" handwritten digits, which need no data. All run on a CPU.
"""

from lsa_jax.experiments.lsa.image_examples.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_QUICK = {
    "data.dataset": "digits",
    "data.image_size": 8,
    "data.background_size": 16,
    "num_examples": 2,
    "sweep.background": ("gaussian",),
    "sweep.std": (0.0, 1.0),
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "Images on backgrounds (figure 5)",
        "data.dataset": "cifar10",
        "data.num_train": 100,
        "data.num_test": 10,
        "data.image_size": 16,
        "data.background_size": 32,
        "data.photographs": "plants",
        "sweep.background": ("gaussian", "photographs", "distractors"),
    },
    small={"num_examples": 1},
    quick=_QUICK,
)
