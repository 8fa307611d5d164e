"""Stars in noise: a kernel learns to find a shape at any place, next to its published accuracy.

    python -m launch.sweep --config=configs/lazy_rich/stars.py --workdir=runs/stars

25 images with a star at a random place of 32 x 32 x 3 pixels of Gaussian noise and 25 without; the
infinite NTK of one convolution 11 x 11, before and after one update of its patches' transform
(Beaglehole et al., 2023, who print 78.0 and 94.8 % of one draw of the data). Twelve seeds draw data
of their own; a thousand test images, each on four backgrounds. Claims: either accuracy is at least
the published one, and the update gains. ":small": three seeds. Both run on a CPU.
"""

from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Stars in noise",
        "paper_item": "conv_rfm/stars",
        "figure_axis": "update",
        "data.dataset": "stars",
        "data.image_size": 15,
        "data.background_size": 32,
        "data.placement": "random_location",
        "data.background": "gaussian",
        "data.transparent": True,
        "data.test_copies": 4,
        "model.name": "cnn",
        "model.channels": (64,),
        "model.window": 11,
        "model.stride": 1,
        "rfm.updates": 1,
        "rfm.points": 20,
        "rfm.every_update": True,
        "rfm.ridge": (1e-3,),
        "sweep.learner": ("rfm",),
        "sweep.noise": (0.3,),
        "sweep.seed": tuple(range(12)),
    },
    small={"sweep.seed": (0, 1, 2)},
    quick={"data.test_copies": 1, "data.num_test": 40, "model.window": 5, "sweep.seed": (0,)},
)
