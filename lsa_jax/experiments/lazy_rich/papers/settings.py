"""Settings: networks and kernels that learn, on the papers' own data.

Sources of the tasks' defaults: Karp et al. (2021), figures 3 and 6 and theorem 2; Shi, Wei and
Liang (2022), table 1; Allen-Zhu and Li (2019), section 8.1. Numbers of examples are ours.
"""

from lsa_jax.checks import integer, number, one_of, tuple_of
from lsa_jax.reporting.courses import OF_ANY
from lsa_jax.sweep.fields import Field, Rule, Settings, heading, measure_fields, product_of

TASKS = {
    "figure3": "sparse signal, as in figure 3 (Karp et al.)",
    "theorem2": "sparse signal, as in theorem 2 (Karp et al.)",
    "figure6": "MNIST in a corner, in noise as in figure 6 (Karp et al.)",
    "table1": "hidden patterns, as in table 1 (Shi et al.)",
    "hierarchical": "F + 0.3 G(F) (Allen-Zhu and Li)",
}
LEARNERS = {
    "network": "network",
    "ntk_trained": "NTK after training",
    "rfm": "recursive feature machine",
    "ntk_wide": "wide NTK",
    "ntk_start": "NTK at the start",
}
FIXED = ("ntk_wide", "ntk_start")

_TASK, _LEARNER, _SEED, _SIZE = one_of(*TASKS), one_of(*LEARNERS), integer(0), integer(1)

FIELDS: dict[str, Field] = {
    **heading(__name__, "Lazy or rich on the papers' data"),
    "task": Field("figure3", _TASK, "the paper's data"),
    "learner": Field("network", _LEARNER, "the learner"),
    "seed": Field(0, _SEED, "draws the data, the network and its training"),
    # The sparse signal.
    "sparse.k": Field(1000, integer(3), "rows of noise"),
    "sparse.d": Field(10, integer(1), "figure3: length of a row; theorem 2: about k / log(k)^2"),
    "sparse.filters": Field(256, _SIZE, "of the network whose NTK stands for the wide one"),
    "sparse.num_train": Field(1000, _SIZE, "training examples"),
    "sparse.num_test": Field(2000, _SIZE, "test examples"),
    "sparse.epochs": Field(600, _SIZE, "passes of the network's training"),
    "sparse.init_scale": Field(1e-6, number(1e-15), "std of its filter's entries at the start"),
    "sparse.threshold_warmup_epochs": Field(
        150.0, number(0), "how long the rate of its threshold alone rises to that of its filter"
    ),
    # MNIST.
    "mnist.noise": Field(2.0, number(0), "standard deviation of the background"),
    "mnist.num_train": Field(3000, _SIZE, "training images"),
    "mnist.num_test": Field(1000, _SIZE, "test images"),
    "mnist.epochs": Field(40, _SIZE, "passes of the network's training"),
    # Hidden patterns.
    "patterns.num_train": Field(2000, _SIZE, "training examples"),
    "patterns.num_test": Field(2000, _SIZE, "test examples"),
    "patterns.width": Field(300, _SIZE, "half of the neurons"),
    "patterns.epochs": Field(30, _SIZE, "passes after the network's first two steps"),
    # The hierarchical target.
    "hierarchical.num_train": Field(500, _SIZE, "training examples"),
    "hierarchical.num_test": Field(2000, _SIZE, "test examples"),
    "hierarchical.width": Field(200, _SIZE, "of the three-layer ResNet"),
    "hierarchical.epochs": Field(800, _SIZE, "passes of the network's training"),
    # Kernels.
    "ridge": Field(
        (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
        tuple_of(number(0, above=True)),
        "over the kernel's mean diagonal; of several, by leave-one-out errors (kernels that learn "
        "have seen the labels)",
    ),
    "rfm.updates": Field(4, _SIZE, "updates of the wide NTK's features"),
    "rfm.points": Field(100, _SIZE, "training examples at which gradients are averaged"),
    **measure_fields(),
    # The axes of the sweep.
    "sweep.task": Field(tuple(TASKS), tuple_of(_TASK), "the paper's data"),
    "sweep.learner": Field(tuple(LEARNERS), tuple_of(_LEARNER), "learners"),
    "sweep.seed": Field((0, 1, 2), tuple_of(_SEED), "seeds"),
}

RULES = (
    Rule(
        "measures",
        lambda c: c.task not in ("figure3", "theorem2") or set(c.measures) <= set(OF_ANY),
        f"{OF_ANY!r} for the task {{c.task!r}}, whose single filter has no layer of features",
    ),
)

SETTINGS = Settings(FIELDS, product_of("task", "seed", "learner"), RULES)
