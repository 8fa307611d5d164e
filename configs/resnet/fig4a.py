"""Figures 1 and 4 (a), Allen-Zhu and Li 2019: SGD misses a network of small norm, d = 40.

    python -m launch.sweep --config=configs/resnet/fig4a.py --workdir=runs/fig4a

y = d^3 x_1 ... x_6 and N = 5,000: Frobenius norm against error of networks made by hand, and of
all that SGD finds over widths, learning rates and weight decays. The full widths, to
100,000, need a GPU. For a CPU: ":width_2000" has those to 2,000, and all of the rest; ":width_200"
has that width alone, ten times; ":small" has widths 200 and 500 and 8 settings. Test errors of the
last two are on 20,000 examples; networks made by hand have exact ones, over all inputs.
"""

from lsa_jax.experiments.resnet.minimal_norm.settings import QUICK, SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "num_test": 20_000,
    "epochs": 400,
    "fall_epoch": 200,
    "search.learning_rates": (5.0, 10.0),
    "search.weight_decays": (1e-6, 1e-5, 2e-5, 5e-5),
    "sweep.width": (200, 500),
}

_WIDTH_2000 = {"sweep.width": (200, 500, 1000, 2000)}

# Results of SGD at one width vary with the seed, as training is chaotic.
_WIDTH_200 = {"num_test": 20_000, "sweep.width": (200,), "sweep.seed": tuple(range(10))}

get_config = configurations(
    SETTINGS,
    full={
        "title": "Frobenius norm against error, d = 40, N = 5,000 (figure 4 a)",
        "d": 40,
        "num_train": 5000,
        "batch_size": 50,
        "epochs": 800,
        "fall_epoch": 400,
        "search.learning_rates": (1.0, 2.0, 5.0, 10.0, 20.0),
        "search.weight_decays": (1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4),
        "sweep.width": (200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000),
    },
    small=_SMALL,
    quick=QUICK,
    width_2000=_WIDTH_2000,
    width_200=_WIDTH_200,
)
