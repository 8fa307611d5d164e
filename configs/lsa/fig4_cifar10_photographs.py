r"""Figure 4 (top left), Karp et al. 2021: CIFAR-10 on photographs of plants.

    python -m launch.sweep --config=configs/lsa/fig4_cifar10_photographs.py \
        --workdir=runs/fig4_cifar10_photographs --data_dir=DIR

DIR holds cifar-10-batches-bin/ and photographs below plants/ (ImageNet's Plants synset in the
paper). The image goes to a random location; the noise is the intensity of the photograph.
Full: WRN-10-10 and its linearisation, 200 epochs; the paper took 2 to 10 hours a run on one RTX
2080 Ti, and there are 10 runs a seed. ":small": WRN-10-1 on 5,000 images for 10 epochs, at zero
and at the highest noise; 12 min 40 s on 2 CPU cores (20 minutes of processor time).

":small" kept, of the accuracy without noise (one seed): network 76.4 % (44.0 to 33.6), finite NTK
68.1 % (23.2 to 15.8); paper 98.97 and 69.75. The order is the paper's; 5,000 images are too few for
the network's own number.
"""

import ml_collections

from lsa_jax.experiments.lsa import protocol


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the panel in one of the variants full, small, quick."""
    return protocol.figure4(
        variant,
        {
            "title": "CIFAR-10 on photographs",
            "paper_item": "lsa/table1/cifar10_photographs",
            "data.task": "all",
            "data.background": "photographs",
            "data.photographs": "plants",
            "data.placement": "random_location",
        },
    )
