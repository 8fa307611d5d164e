"""Table 5 at n = 10,000, figures 13, 14, Shi, Wei and Liang 2022: table 1 with m = 50.

    python -m launch.sweep --config=configs/feature_learning/table5_10000.py --workdir=runs/n10000

m = 50 (100 neurons), as in the paper. The NTK also has 6,000 and 24,000 updates at a rate of 1e-3,
as its number is a matter of when it is stopped: one seed, looked at before, still falls after
24,000 at 1e-5. The network without structure is trained to the end in 400 epochs, as it does not
fit its examples in the 100 of other tables (":small" has 40).

Five seeds, and 25 more of that network; ":small" has two. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.tables import table

_LONGER = {"sweep.ntk_steps": (6000, 24_000), "sweep.ntk_long_rate": 1e-3}

get_config = table(
    {
        "title": "Parity labels, 10,000 examples (table 5)",
        "paper_item": "feature_learning/table5_10000",
        "data.num_train": 10000,
        "m": 50,
        "memorise.epochs": 400,
        "sweep.more_learner": ("memorise",),
        "sweep.more_seed": tuple(range(5, 30)),
        **_LONGER,
    },
    {"data.num_train": 10_000, "m": 50, **_LONGER},
)
