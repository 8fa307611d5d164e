r"""Growing backgrounds, Karp et al. 2021, section 6: CIFAR-2 on ever larger photographs.

    python -m launch.sweep --config=configs/lsa/growing_background.py \
        --workdir=runs/growing_background --data_dir=DIR

DIR holds cifar-10-batches-bin/ and photographs below plants/ (ImageNet's Plants synset in the
paper). An image of 16 x 16 lies at a random location of a photograph at full intensity, whose side
grows from 16 pixels, where nothing of it is seen, to 64; the paper gives no sizes.
Full: WRN-10-10 and its linearisation, 200 epochs, 10 runs a seed; needs a GPU. ":small": WRN-10-1
on 2,500 images for 10 epochs, backgrounds of 16, 32 and 48 pixels, one seed, for a CPU.
"""

import ml_collections

from lsa_jax.experiments.lsa import protocol


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the experiment in one of the variants full, small, quick."""
    return protocol.growing_background(variant)
