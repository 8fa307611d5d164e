r"""Growing backgrounds, Karp et al. 2021, section 6: CIFAR-2 on ever larger photographs.

    python -m launch.sweep --config=configs/lsa/growing_background.py \
        --workdir=runs/growing_background --data_dir=DIR

DIR holds cifar-10-batches-bin/ and photographs below plants/ (ImageNet's Plants synset in the
paper). An image of 16 x 16 lies at a random location of a photograph at full intensity, whose side
grows from 16 pixels, where nothing of it is seen, to 64; the paper gives no sizes.
Full: WRN-10-10 and its linearisation, 200 epochs, 10 runs a seed. ":small": WRN-10-1 on 5,000
images, backgrounds of 16, 32 and 48 pixels, 6 runs. Not run at either size.
"""

import ml_collections

from lsa_jax.settings import lsa, noise_curves


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the experiment in one of the variants full, small, quick."""
    return lsa.growing_background(variant)


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: size of the background x learner x seed."""
    return noise_curves.sweep(config)
