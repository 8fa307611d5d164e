"""Handwritten digits in noise: a network, its fixed NTKs and two kernels that learn.

    python -m launch.sweep --config=configs/quickstart.py --workdir=runs/quickstart

scikit-learn's 8 x 8 digits (1,437 to train on, 360 to test on) go to a random corner of a 16 x 16
background of Gaussian noise; there is no download. All learners see the same data: each training
image on one background that stays fixed, each test image on two. The network is a CNN of two 3 x 3
convolutions of stride 2 (32 and 64 channels) and a readout, trained for 40 epochs by SGD with
momentum 0.9, its rate rising to 0.15 over 5 epochs (without, some seeds fail at noise 1.5). Two
kernels are fixed: the finite NTK is the network's linearisation at initialisation, trained for 40
epochs by Adam, the infinite NTK is kernel ridge regression. Two have learned: the NTK after
training is regression with the finite kernel of the trained network; the recursive feature machine
learns which directions of a 3 x 3 patch matter, 4 times, over the infinite NTK. A random corner,
because there a learner has to find the image before it can read it; fixed backgrounds, because a
kernel needs a finite training set; after 40 epochs every learner has a training accuracy of 99 % or
more at every noise.

Five seeds; the kernels that learn, which cost the most, have two of them. It runs on a CPU.
"""

from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {"sweep.noise": (0.0, 1.0, 2.0), "sweep.seed": (0,), "sweep.learned_seed": ()}

_QUICK = {
    "data.num_train": 64,
    "data.num_test": 32,
    "network.epochs": 2,
    "ntk_finite.epochs": 2,
    "rfm.updates": 1,
    "sweep.noise": (0.0, 2.0),
    "sweep.seed": (0, 1),
    "sweep.learned_seed": (0,),
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "Quickstart: handwritten digits on noisy backgrounds",
        "data.dataset": "digits",
        "data.image_size": 8,
        "data.background_size": 16,
        "data.placement": "random_corner",
        "data.background": "gaussian",
        "data.copies": 1,
        "data.test_copies": 2,
        "model.name": "cnn",
        "model.channels": (32, 64),
        "network.epochs": 40,
        "network.batch_size": 64,
        "network.learning_rate": 0.15,
        "network.warmup_epochs": 5.0,
        "network.weight_decay": 0.0,
        "network.schedule": "cosine",
        "ntk_finite.epochs": 40,
        "ntk_finite.batch_size": 64,
        "ntk_finite.learning_rate": 0.1,
        "ntk_finite.schedule": "cosine",
        "ntk_trained.ridge": (1e-3,),
        "rfm.updates": 4,
        "rfm.points": 50,
        "rfm.ridge": (1e-3,),
        "sweep.noise": (0.0, 0.5, 1.0, 1.5, 2.0),
        "sweep.learner": ("network", "ntk_trained", "rfm", "ntk_infinite", "ntk_finite"),
        "sweep.seed": (0, 1, 2, 3, 4),
        "sweep.learned_seed": (0, 1),
    },
    small=_SMALL,
    quick=_QUICK,
)
