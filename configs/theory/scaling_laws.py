"""Scaling laws, lazy and rich: does feature learning raise the power of time of hard tasks alone?

    python -m launch.sweep --config=configs/theory/scaling_laws.py --workdir=runs/scaling_laws

Bordelon, Atanasov and Pehlevan (2024): the loss falls as step^-beta in lazy training. In rich
training of hard tasks, whose beta is below 1, it falls as step^(-2 beta / (1 + beta)), with nearly
twice the power; easy tasks keep theirs. Here three layers with biases learn functions on the circle
by full-batch gradient descent: the modes from k on have k^(-2 beta) of the target's power, with
beta 0.25 (hard) and 1.5 (easy). The law depends on powers alone. Both kinds of phases have them:
aligned, a sum of cosines as in the paper, and random. Sizes, output scales and rates are ours,
chosen by runs of one seed whose powers were seen; the paper's networks see fresh examples. ":small"
has narrower networks, fewer steps and angles, and thirty seeds.
"""

from lsa_jax.experiments.theory.laws.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Scaling laws, lazy and rich",
        "law": "scaling",
        "width": 256,
        "num_train": 1024,
        "num_test": 1024,
        "steps": 20_000,
        "evaluations": 40,
        "sweep.depth": (3,),
        "sweep.output_scale": (0.0625, 256.0),
        "sweep.learning_rate": (0.25,),
        "sweep.with_scale": True,
        "sweep.source_exponent": (0.25, 1.5),
        "sweep.phases": ("aligned", "random"),
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    small={
        "width": 128,
        "num_train": 512,
        "num_test": 512,
        "steps": 6000,
        "evaluations": 30,
        "sweep.seed": tuple(range(30)),
    },
    quick={
        "width": 4,
        "num_train": 16,
        "num_test": 16,
        "steps": 20,
        "evaluations": 6,
        "sweep.phases": ("aligned",),
        "sweep.seed": (0, 1),
    },
)
