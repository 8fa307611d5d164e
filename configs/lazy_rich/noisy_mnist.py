r"""MNIST at a random place in noise: a kernel that learns, next to its published accuracy and time.

    python -m launch.sweep --config=configs/lazy_rich/noisy_mnist.py --data_dir=DIR \
        --workdir=runs/noisy_mnist

28 x 28 digits at a random place of a 42 x 42 frame of Gaussian noise of standard deviation 0.5,
4,000 to train on and 4,000 to test on, each on one background; ridge 1e-5, 20 points for the
average gradient outer product (Beaglehole et al., 2023, who print 52.0, 54.5, 57.3 and 59.4 % after
no, one, two and three updates, and 6.7 s for a kernel matrix on a GPU that they do not name). Three
seeds draw placements and backgrounds. Claims: either the first or the last accuracy is at least the
published one, and the updates gain.
The network of the kernel is theirs, three convolutions 3 x 3 of stride 1, but that images are not
padded, where theirs are circularly in front of the first; and a ridge is relative to the kernel's
mean diagonal here, to its largest entry there. ":small" has all 4,000 training images, 1,000 of the
test images, and a network of two convolutions 7 x 7 of stride 2, whose kernel takes a fraction of
the time, and whose accuracy is not theirs to compare; it is for a CPU.
"""

from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "data.num_test": 1000,
    "model.channels": (32, 64),
    "model.window": 7,
    "model.stride": 2,
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "MNIST at a random place in noise",
        "paper_item": "conv_rfm/noisy_mnist",
        "figure_axis": "update",
        "data.dataset": "mnist",
        "data.num_train": 4000,
        "data.num_test": 4000,
        "data.image_size": 28,
        "data.background_size": 42,
        "data.placement": "random_location",
        "data.background": "gaussian",
        "model.name": "cnn",
        "model.channels": (32, 32, 32),
        "model.window": 3,
        "model.stride": 1,
        "rfm.updates": 3,
        "rfm.points": 20,
        "rfm.every_update": True,
        "rfm.ridge": (1e-5,),
        "sweep.learner": ("rfm",),
        "sweep.noise": (0.5,),
        "sweep.seed": (0, 1, 2),
    },
    small=_SMALL,
    quick=_SMALL
    | {
        "data.num_train": 30,
        "data.num_test": 20,
        "rfm.updates": 1,
        "rfm.points": 4,
        "sweep.seed": (0,),
    },
)
