"""Figure 4 (b), Allen-Zhu and Li 2019: SGD misses a network of small norm, d = 100.

    python -m launch.sweep --config=configs/resnet/fig4b.py --workdir=runs/fig4b

As figure 4 (a), with N = 50,000 and batches of 100. The full sizes, widths to 50,000, need a GPU.
For a CPU: ":width_1000", the least width here with more weights than examples, which four settings
do not fit in 400 epochs; ":small" has width 200, with fewer weights than examples, and four times
the test examples, as networks made by hand come near the paper's errors.
"""

from lsa_jax.experiments.resnet.minimal_norm.settings import QUICK, SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "num_test": 20_000,
    "epochs": 40,
    "fall_epoch": 20,
    "eval_every": 20,
    "search.learning_rates": (5.0, 10.0),
    "search.weight_decays": (1e-6, 1e-5),
    "search.check_epoch": 5,
    "sweep.width": (200,),
}

get_config = configurations(
    SETTINGS,
    full={
        "title": "Frobenius norm against error, d = 100, N = 50,000 (figure 4 b)",
        "d": 100,
        "num_train": 50_000,
        "batch_size": 100,
        "epochs": 800,
        "fall_epoch": 400,
        "search.learning_rates": (1.0, 2.0, 5.0, 10.0, 20.0),
        "search.weight_decays": (1e-7, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5),
        "sweep.width": (200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
    },
    small=_SMALL,
    quick=QUICK,
    width_1000={
        "epochs": 400,
        "fall_epoch": 200,
        "search.learning_rates": (5.0, 10.0),
        "search.weight_decays": (1e-6, 1e-5),
        "sweep.width": (1000,),
    },
)
