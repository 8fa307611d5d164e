r"""The coordinate check: change of activations in four steps against the width.

    python -m launch.sweep --config=configs/lazy_rich/coordinate_check.py \
        --workdir=runs/coordinate_check

Flat in muP, for SGD and for Adam; in the standard parameterisation it grows with the width, and in
the NTK parameterisation that of features falls under SGD. Digits, a CNN of two convolutions (32 and
64 channels at width factor 1); what is trained is f - f_0. ":small" has half of the channels and
fewer seeds. Both run on a CPU.
"""

import ml_collections

from lsa_jax.experiments.lazy_rich.coordinate_check import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = {"model.channels": (16, 32), "sweep.seed": tuple(range(8))}

_QUICK = {
    "data.num_train": 24,
    "data.num_test": 12,
    "batch_size": 8,
    "model.channels": (2, 3),
    "sweep.width_factor": (1, 2),
    "sweep.seed": (0,),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the check in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        {"title": "Coordinate check on digits", "model.channels": (32, 64)},
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
