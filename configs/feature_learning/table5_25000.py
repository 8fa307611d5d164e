"""Table 5 at n = 25,000, figures 13, 14, Shi, Wei and Liang 2022: table 1 on fewer examples.

    python -m launch.sweep --config=configs/feature_learning/table5_25000.py --workdir=runs/n25000

The same network, m = 300. The NTK also has 6,000 and 24,000 updates at a rate of 1e-3, as in table
1. Five seeds, and 16 more of the fixed features; ":small" has two. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.tables import table

get_config = table(
    {
        "ntk_rate": 1e-4,
        "sweep.ntk_rate": (1e-5, 1e-3),
        "title": "Parity labels, 25,000 examples (table 5)",
        "paper_item": "feature_learning/table5_25000",
        "data.num_train": 25000,
        "sweep.ntk_steps": (6000, 24_000),
        "sweep.ntk_long_rate": 1e-3,
        "sweep.more_learner": ("ntk", "random_features"),
        "sweep.more_seed": tuple(range(5, 21)),
    },
    {"data.num_train": 10_000},
)
