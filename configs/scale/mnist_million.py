r"""A million images of MNIST on noise: the infinite NTK of figure 6's CNN, on centres.

    python -m launch.sweep --config=configs/scale/mnist_million.py --workdir=runs/mnist_million \
        --data_dir=DIR

Each of the 60,000 training images at 17 random locations, on 42 x 42 backgrounds of Gaussian noise
of standard deviation 1 that are drawn when their batch comes: 1,020,000 examples, of which none is
kept. Kernel ridge regression on 2,000 of them as centres, there on black backgrounds, tested on all
10,000 test images. It is `mnist_noise_exact.py` past what can be stored: 2e9 pairs, and the same
memory for any number of images. A run that was killed goes on with the batches that it had.
":small": the 60,000 once, 1,000 centres.
"""

from lsa_jax.experiments.lsa import protocol

get_config = protocol.whole_mnist(
    {
        "title": "A million images of MNIST on Gaussian noise: the infinite NTK, on centres",
        "data.background": "gaussian",
        "data.background_size": 42,
        "data.placement": "random_location",
        "data.copies": 17,
        "ntk_infinite.solver": "nystrom",
        "ntk_infinite.centres": 2000,
        "ntk_infinite.centre_noise": 0.0,
        "sweep.noise": (1.0,),
    },
    small={"data.copies": 1, "ntk_infinite.centres": 1000},
)
