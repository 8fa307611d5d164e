"""Grokking from lazy to rich: does the test loss fall the later, the larger alpha is?

    python -m launch.sweep --config=configs/theory/grokking.py --workdir=runs/theory_grokking

Kumar et al. (2023): two layers with phi(h) = h + epsilon h^2 / 2 and a fixed readout learn a
quadratic function of one direction of Gaussian inputs, by full-batch gradient descent without a
weight decay. The kernel at the start fits the training examples, of which there are fewer than
quadratic functions; the direction has to be learned. The delay is log2 of the ratio of the steps at
which the test and the training loss fall below 0.15 of a guess's; the largest alpha is a lazy
control. Sizes and rates are ours. ":small" has half of the steps, and six seeds of twelve.
"""

from lsa_jax.experiments.theory.laws.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Grokking from lazy to rich",
        "law": "grokking",
        "width": 100,
        "num_train": 350,
        "num_test": 1000,
        "steps": 20_000,
        "evaluations": 60,
        "sweep.output_scale": (0.125, 0.25, 0.5, 1.0, 2.0, 64.0),
        "sweep.learning_rate": (4.0,),
        "sweep.with_scale": True,
        "sweep.seed": tuple(range(12)),
    },
    small={"steps": 10_000, "evaluations": 40, "sweep.seed": tuple(range(6))},
    quick={
        "width": 8,
        "dimension": 4,
        "num_train": 16,
        "num_test": 32,
        "steps": 50,
        "evaluations": 6,
        "measured_examples": 8,
        "sweep.output_scale": (0.25, 1.0, 16.0),
        "sweep.seed": (0, 1),
    },
)
