r"""All of MNIST, exactly: the infinite NTK of figure 6's CNN on 60,000 images, on one machine.

    python -m launch.sweep --config=configs/scale/mnist_exact.py --workdir=runs/mnist_exact \
        --data_dir=DIR

MNIST 28 x 28 without a background; DIR holds mnist/. Kernel ridge regression on all 60,000 training
images, tested on all 10,000; the ridge, 1e-4, is ours (figure 6's kernels have 1e-5). Half of the
symmetric matrix is kept on disk in tiles (7.2 GB, and 2.4 GB for test against training images) and
the system is solved by preconditioned conjugate gradients to a residual of 1e-6, so that neither is
ever whole in memory. A run that was killed goes on with the tiles and iterations that it had.
":small": 10,000 images. Both run on a CPU.
"""

from lsa_jax.experiments.lsa import protocol

get_config = protocol.whole_mnist(
    {
        "title": "All of MNIST: the infinite NTK of a CNN, solved exactly",
        "data.background": "none",
        "data.background_size": 28,
        "data.placement": "fixed_corner",
        "sweep.noise": (0.0,),
    },
)
