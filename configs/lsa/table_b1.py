"""Table B.1, Karp 2024 (thesis): placements and sizes of CIFAR-2 images on Gaussian noise.

    python -m launch.sweep --config=configs/lsa/table_b1.py --workdir=runs/table_b1 --data_dir=DIR

DIR holds cifar-10-batches-bin/. Images of 16 x 16 on 32 x 32 and of 32 x 32 on 64 x 64, at a random
location, in a random corner and in a fixed corner; the noise is the standard deviation of the
background. Full: WRN-10-10 and its linearisation, 200 epochs, 48 runs a seed; the paper took 2 to
10 hours a run on one RTX 2080 Ti. On 64 x 64 the WRN has batches of 50 and rate 0.05. ":small":
WRN-10-1 on 2,000 images of 16 x 16 on 32 x 32, in a random and a fixed corner, at zero and at the
highest noise, three seeds, with the NTK solved exactly, for a CPU.
"""

from typing import Any

import ml_collections

from lsa_jax.experiments.lsa import protocol
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS

# The largest that fit in memory on the larger inputs (appendix B.3).
_ON_64 = {"network.batch_size": 50, "network.learning_rate": 0.05}

_FEWER = {
    "sweep.noise": (0.0, 2.0),
    "sweep.placement": ("random_corner", "fixed_corner"),
    "sweep.size": ((16, 32),),
}

get_config = protocol.figure4(
    {
        "title": "CIFAR-2 on Gaussian noise, by placement and size",
        "paper_item": "lsa/table_b1",
        "data.task": "cifar2",
        "data.background": "gaussian",
        "sweep.noise": (0.0, 0.5, 1.0, 2.0),
        "sweep.placement": ("random_location", "random_corner", "fixed_corner"),
        "sweep.size": ((16, 32), (32, 64)),
    },
    small=protocol.SMALL | _FEWER,
    quick=protocol.QUICK | _FEWER,
)


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, Any]]:
    """Returns every point: size x placement x learner x noise x seed."""
    return [
        {**point, **_ON_64}
        if point["learner"] == "network" and point["data.background_size"] == 64
        else point
        for point in SETTINGS.sweep(config)
    ]
