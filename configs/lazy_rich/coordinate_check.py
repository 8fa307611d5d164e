r"""The coordinate check: change of activations in four steps against the width.

    python -m launch.sweep --config=configs/lazy_rich/coordinate_check.py \
        --workdir=runs/coordinate_check

Flat in muP, for SGD and for Adam; in the standard parameterisation it grows with the width, and in
the NTK parameterisation that of features falls under SGD. Digits, a CNN of two convolutions (32 and
64 channels at width factor 1), trained as f - f_0. ":small" has half of the channels and fewer
seeds. Both run on a CPU.
"""

from lsa_jax.experiments.lazy_rich.coordinate_check.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {"model.channels": (16, 32), "sweep.seed": tuple(range(8))}

get_config = configurations(
    SETTINGS,
    full={"title": "Coordinate check on digits", "model.channels": (32, 64)},
    small=_SMALL,
    quick={
        "data.num_train": 24,
        "data.num_test": 12,
        "batch_size": 8,
        "model.channels": (2, 3),
        "sweep.width_factor": (1, 2),
        "sweep.seed": (0,),
    },
)
