"""Table 2 and figures 7, 8, Shi, Wei and Liang 2022: labels of an interval, k = 30.

    python -m launch.sweep --config=configs/feature_learning/table2.py --workdir=runs/table2

y = 1 where 20 to 30 of the 30 relevant patterns are there, m = 100, 200 updates. Without structure
95 % of the labels are -1, so an accuracy of 95 % there is that of a constant; its balanced accuracy
is 50 %. Both classes have equal weight in steps 1 and 2, as in appendix F and not in this table:
without weights (rows of the sweep, too) the network and Two Step answer with a constant. The rates
of NTK and random features are ours, as the paper gives none. One Step's cosine depends on
`leftover`, see table1.py.

The NTK also has 6,000 updates, after which one seed, looked at before, fits every example.

Five seeds; ":small" has two, on 20,000 examples. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.tables import table

get_config = table(
    {
        "title": "Labels of an interval (table 2)",
        "paper_item": "feature_learning/table2",
        "data.labels": "interval",
        "data.k": 30,
        "m": 100,
        "steps": 200,
        "ntk_rate": 0.1,
        "sweep.class_weights": ("none",),
        "sweep.ntk_rate": (0.01, 0.001),
        "sweep.ntk_steps": (6000,),
    },
    {"data.num_train": 20_000, "m": 100, "eval_every": 20},
)
