"""Table B.1, Karp 2024 (thesis): placements and sizes of CIFAR-2 images on Gaussian noise.

    python -m launch.sweep --config=configs/lsa/table_b1.py --workdir=runs/table_b1 --data_dir=DIR

DIR holds cifar-10-batches-bin/. Images of 16 x 16 on 32 x 32 and of 32 x 32 on 64 x 64, at a random
location, in a random corner and in a fixed corner; the noise is the standard deviation of the
background. Full: WRN-10-10 and its linearisation, 200 epochs, 48 runs a seed; the paper took 2 to
10 hours a run on one RTX 2080 Ti. On 64 x 64 the WRN has batches of 50 and rate 0.05. ":small":
WRN-10-1 on 2,500 images of 16 x 16 on 32 x 32, in a random and a fixed corner, at zero and at the
highest noise, one seed, for a CPU.
"""

import ml_collections

from lsa_jax.experiments.lsa import protocol
from lsa_jax.experiments.lsa.noise_curves import settings

# What memory allowed on the larger inputs (appendix B.3).
_ON_64 = {"network.batch_size": 50, "network.learning_rate": 0.05}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the table in one of the variants full, small, quick."""
    return protocol.table_b1(variant)


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: size x placement x learner x noise x seed."""
    return [
        {**point, **_ON_64}
        if point["learner"] == "network" and point["data.background_size"] == 64
        else point
        for point in settings.sweep(config)
    ]
