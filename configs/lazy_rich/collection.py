r"""A collection of 24 networks and tasks: does one call answer lazy or rich?

    python -m launch.sweep --config=configs/lazy_rich/collection.py --data_dir=DIR \
        --workdir=runs/collection

Images, tokens, tables and made data; MLPs, CNNs, a ResNet and a Transformer in three
parameterisations, with small and large output scales, and four more scales that calibrate c.
Answers that are known beforehand are in the experiment's settings. Each task is one call of
`lsa_jax.diagnose` with its default budget of 3 minutes, by which sizes are chosen; the sizes are in
the results. DIR holds mnist/, cifar-10-batches-bin/ and a folder of photographs, a folder a class,
named by `--config.data.folder`. ":small" has a budget of a minute a task. Both run on a CPU.
"""

from lsa_jax.experiments.lazy_rich.collection.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={"title": "Lazy or rich: a collection of 24 tasks"},
    small={"minutes": 1.0},
    quick={
        "seeds": 2,
        "folds": 1,
        "examples": 150,
        "epochs": 3,
        "sweep.task": ("digits_linearized", "first_transformer"),
    },
)
