r"""All of MNIST on noise, exactly: the infinite NTK of figure 6's CNN on 60,000 images of 42 x 42.

    python -m launch.sweep --config=configs/scale/mnist_noise_exact.py --workdir=runs/mnist_noise \
        --data_dir=DIR

As `mnist_exact.py`, with each image at a random location of a 42 x 42 background of Gaussian noise
of standard deviation 1, as in the right panel of figure 6, which has no infinite NTK. ":small":
10,000 images. Both run on a CPU.
"""

from lsa_jax.experiments.lsa import protocol

get_config = protocol.whole_mnist(
    {
        "title": "All of MNIST on Gaussian noise: the infinite NTK of a CNN, solved exactly",
        "data.background": "gaussian",
        "data.background_size": 42,
        "data.placement": "random_location",
        "sweep.noise": (1.0,),
    },
)
