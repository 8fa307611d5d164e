"""Table 3 at d = 2000, figures 9, 10, Shi, Wei and Liang 2022: table 1 in more dimensions.

    python -m launch.sweep --config=configs/feature_learning/table3_d2000.py --workdir=runs/d2000

The same problems as table 1's in other coordinates: accuracies are table 1's up to rounding, for
every seed. Inputs lie in the span of 100 patterns, so training costs as much as in 100
dimensions. The NTK also has 6,000 and 24,000 updates at a rate of 1e-3, as in table 1. ":small" is
that of table 1. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.tables import table

get_config = table(
    {
        "title": "Parity labels, d = 2000 (table 3)",
        "paper_item": "feature_learning/table3_d2000",
        "data.d": 2000,
        "sweep.ntk_steps": (6000, 24_000),
        "sweep.ntk_long_rate": 1e-3,
    }
)
