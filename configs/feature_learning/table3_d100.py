"""Table 3 at d = 100, figures 9, 10, Shi, Wei and Liang 2022: table 1 in fewer dimensions.

    python -m launch.sweep --config=configs/feature_learning/table3_d100.py --workdir=runs/d100

The same problems as table 1's in other coordinates, and the same settings, the NTK's rate included:
accuracies are table 1's up to rounding, for every seed. The NTK also has 6,000 and 24,000 updates
at a rate of 1e-3, as in table 1; One Step has ten seeds more. ":small" is that of table 1. Both run
on a CPU.
"""

from lsa_jax.experiments.feature_learning.tables import table

get_config = table(
    {
        "title": "Parity labels, d = 100 (table 3)",
        "paper_item": "feature_learning/table3_d100",
        "data.d": 100,
        "sweep.ntk_steps": (6000, 24_000),
        "sweep.ntk_long_rate": 1e-3,
        "sweep.more_learner": ("one_step",),
        "sweep.more_seed": tuple(range(5, 15)),
    }
)
