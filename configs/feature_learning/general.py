"""Appendix F, Shi, Wei and Liang 2022: incoherent dictionary, noise, unequal correlations.

    python -m launch.sweep --config=configs/feature_learning/general.py --workdir=runs/general

Theorem 34's setting on the parity mixture: columns of M uniform on the sphere, zeta in the inputs,
patterns of unequal probabilities in the first part, and 60 % of the second part all ones. The paper
gives no experiment; its theorem says that the network learns all the same. Inputs are in d = 500
dimensions here, so a step costs five times that of table 1. Two Step has two rows, by descent and
by least squares. The NTK's rate is 1e-4, where table 1 has 1e-5.

Five seeds; ":small" has two, on 20,000 examples. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.tables import table

get_config = table(
    {
        "ntk_rate": 1e-4,
        "sweep.ntk_rate": (1e-5, 1e-3),
        "title": "Parity labels in the general setting (appendix F)",
        "data.dictionary": "incoherent",
        "data.noise_std": 0.05,
        "data.probability_spread": 0.1,
        "data.ones_share": 0.6,
        "sweep.learner": ("network", "ntk", "random_features", "two_step", "two_step_exact"),
        "sweep.unstructured_learner": ("network",),
    }
)
