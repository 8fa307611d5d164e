"""The edge of stability: does the sharpness rise to 2 / rate, and only in rich training?

    python -m launch.sweep --config=configs/theory/sharpness.py --workdir=runs/theory_sharpness

Cohen et al. (2021): along full-batch gradient descent the largest eigenvalue of the loss's Hessian
rises until it is 2 / rate, and stays there. Three layers of a ReLU network on digits, squared
errors, at a small and a large output scale. Tasks, sizes and rates are ours: at the start the
sharpness is 0.15 to 0.6 times 2 / rate. ":small" has three seeds of five, and two rates of three.
"""

from lsa_jax.experiments.theory.laws.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "The edge of stability, lazy and rich",
        "law": "sharpness",
        "num_train": 128,
        "steps": 3000,
        "evaluations": 40,
        "sweep.depth": (3,),
        "sweep.output_scale": (0.0625, 64.0),
        "sweep.learning_rate": (0.0625, 0.125, 0.25),
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    small={"evaluations": 20, "sweep.learning_rate": (0.125, 0.25), "sweep.seed": (0, 1, 2)},
    quick={
        "width": 4,
        "num_train": 12,
        "num_test": 8,
        "steps": 8,
        "evaluations": 4,
        "measured_examples": 8,
        "sweep.learning_rate": (0.125,),
        "sweep.seed": (0, 1),
    },
)
