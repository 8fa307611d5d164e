"""The edge of stability: does the sharpness rise to 2 / rate, and only in rich training?

    python -m launch.sweep --config=configs/theory/sharpness.py --workdir=runs/theory_sharpness

Cohen et al. (2021): along full-batch gradient descent the largest eigenvalue of the loss's Hessian
rises until it is 2 / rate, and stays there. Two convolutions of 8 channels and a readout on digits,
squared errors, at a small and a large output scale; `--config.model=mlp` takes dense layers. Tasks,
sizes and rates are ours: at the start the sharpness is 0.06 to 0.25 times 2 / rate. ":small" has
three seeds of five, and two rates of three.
"""

from lsa_jax.experiments.theory.laws.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "The edge of stability, lazy and rich",
        "law": "sharpness",
        "model": "cnn",
        "width": 8,
        "num_train": 128,
        "steps": 3000,
        "evaluations": 40,
        "sweep.depth": (3,),
        "sweep.output_scale": (0.0625, 64.0),
        "sweep.learning_rate": (0.03125, 0.0625, 0.125),
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    small={"evaluations": 20, "sweep.learning_rate": (0.0625, 0.125), "sweep.seed": (0, 1, 2)},
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
