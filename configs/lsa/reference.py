"""The authors' published implementation: CIFAR-2, with its differences from the paper.

    python -m launch.sweep --config=configs/lsa/reference.py --workdir=runs/reference --data_dir=DIR

Karp et al. 2021, figure 4 (bottom right); DIR holds cifar-10-batches-bin/. Switched on together:

    data.std_power=2             a Gaussian background of noise sigma has standard deviation sigma^2
    data.shared_pool=True        training and test backgrounds come from one pool of photographs
    *.loss                       the cross-entropy is divided by the number of classes
    network.penalty_factor=1     the penalty is lambda |theta|^2, with gradient 2 lambda theta
    model.w_std=1                no factor sqrt(2) for ReLUs; there are no biases
    model.pool_window=8          the readout sees averages over windows of 8 x 8, a pixel apart: one
                                 of inputs of 32 x 32, 9 x 9 a channel of inputs of 64 x 64

Others are the defaults here too: backgrounds are drawn with replacement and once for each image,
batch normalisation uses the statistics of the batch in evaluation as well (of 512 examples, theirs
of 100), the linearised network is in NTK parameterisation and starts from the network's outputs.
Further choices: model.b_std (a scale for biases), and data.photograph_size=32 for backgrounds
of 64 x 64 that are tiled by several photographs.
For photographs add --config.data.background=photographs --config.data.photographs=plants
--config.sweep.noise="(0.0, 0.25, 0.5, 0.75, 1.0)".
Full: WRN-10-10 and its linearisation, 200 epochs, 10 runs a seed; needs a GPU. ":small" is as in
figure 4, for a CPU. At noise 2 the background has standard deviation 4 here.
"""

from lsa_jax.experiments.lsa import protocol

get_config = protocol.figure4(
    {
        "title": "CIFAR-2 on Gaussian noise, as in the authors' implementation",
        "paper_item": "lsa/table1/cifar2_gaussian",
        "data.task": "cifar2",
        "data.background": "gaussian",
        "data.placement": "random_location",
        "data.std_power": 2,
        "data.shared_pool": True,
        "model.w_std": 1.0,
        "model.pool_window": 8,
        "network.loss": "class_mean_cross_entropy",
        "network.penalty_factor": 1.0,
        "ntk_finite.loss": "class_mean_cross_entropy",
    }
)
