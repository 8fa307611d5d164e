"""Theorem 4.3, Karp 2024 (thesis): with V = cP, descent on W soon classifies perfectly.

    python -m launch.sweep --config=configs/transformers/theorem4_3.py --workdir=runs/theorem4_3

The one-layer Transformer f(X) = softmax(V X softmax(X^T W X)) on decision lists of random members
and lengths: c = 4 n^2 log(L) / delta, W from 0, eta = 1 / lambda_max, the whole population in
float64. Steps to perfect classification (strict rule) beside the bound 32 M lambda_max / log L,
the order of W's columns, and the gradient that a misclassification implies.

Eight sizes (L, n, M) to (18, 6, 5) and three seeds; ":small" has seven, to (16, 5, 5), one seed.
":largest" is (24, 5, 6), some minutes a seed. All run on a CPU.
"""

from lsa_jax.experiments.transformers.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Descent on W with V = cP: steps to perfect classification (theorem 4.3)",
        "question": "value_fixed",
        "lists": "random",
        "steps_after": 50,
        "sweep.cases": (
            *((8, 3, 2), (8, 3, 3), (10, 4, 3), (12, 4, 3), (12, 6, 4), (14, 5, 4)),
            *((16, 5, 5), (18, 6, 5)),
        ),
        "sweep.seed": (0, 1, 2),
    },
    small={
        "steps_after": 10,
        "sweep.cases": (
            (8, 3, 2),
            (8, 3, 3),
            (10, 4, 3),
            (12, 4, 3),
            (12, 6, 4),
            (14, 5, 4),
            (16, 5, 5),
        ),
        "sweep.seed": (0,),
    },
    quick={"steps_after": 1, "sweep.cases": ((6, 3, 2),), "sweep.seed": (0, 1)},
    largest={"sweep.cases": ((24, 5, 6),)},
)
