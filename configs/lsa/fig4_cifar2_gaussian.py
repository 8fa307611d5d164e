r"""Figure 4 (bottom right), Karp et al. 2021: animals or vehicles, on Gaussian noise.

    python -m launch.sweep --config=configs/lsa/fig4_cifar2_gaussian.py \
        --workdir=runs/fig4_cifar2_gaussian --data_dir=DIR

DIR holds cifar-10-batches-bin/. The image goes to a random location; the noise is the standard
deviation of the background.
Full: WRN-10-10 and its linearisation, 200 epochs; the paper took 2 to 10 hours a run on one RTX
2080 Ti, and there are 10 runs a seed. ":small": WRN-10-1 on 5,000 images for 10 epochs, at zero
and at the highest noise; 20 minutes of processor time, of which a sweep keeps 1.4 of 2 CPU cores
busy.

":small" kept, of the accuracy without noise (one seed): network 96.0 % (88.5 to 85.0), finite NTK
84.5 % (78.1 to 66.0); paper 96.83 and 85.54.
"""

import ml_collections

from lsa_jax.experiments.lsa import protocol


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the panel in one of the variants full, small, quick."""
    return protocol.figure4(
        variant,
        {
            "title": "CIFAR-2 on Gaussian noise",
            "paper_item": "lsa/table1/cifar2_gaussian",
            "data.task": "cifar2",
            "data.background": "gaussian",
            "data.placement": "random_location",
        },
    )
