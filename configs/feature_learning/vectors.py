"""Figure 15, Shi, Wei and Liang 2022: relevant patterns are one of 100 random binary vectors.

    python -m launch.sweep --config=configs/feature_learning/vectors.py --workdir=runs/vectors

D = 250, k = 50, 50 vectors a label. The paper gives no numbers; its picture shows clusters after
two steps. The paper does not define its stars; here they are plus and minus E[y x]. The NTK's
rate is 1e-4, where table 1 has 1e-5; the first seed has 1e-5 and 1e-3 too.

Five seeds; ":small" has two, on 20,000 examples. Both run on a CPU.
"""

from lsa_jax.experiments.feature_learning.tables import table

get_config = table(
    {
        "ntk_rate": 1e-4,
        "sweep.ntk_rate": (1e-5, 1e-3),
        "title": "Hidden vectors as labels (figure 15)",
        "data.labels": "vectors",
        "data.num_patterns": 250,
        "data.k": 50,
        "feature_scale": 0.5,
        "sweep.unstructured_learner": (),
    },
    {"data.num_train": 20_000},
)
