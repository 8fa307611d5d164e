"""Theorem 4.4, Karp 2024 (thesis): with V near cP, descent on W and V soon classifies perfectly.

    python -m launch.sweep --config=configs/transformers/theorem4_4.py --workdir=runs/theorem4_4

As theorem 4.3, with V trained too: from cP + noise uniform on [-epsilon/2, epsilon/2], c just above
the theorem's bound, eta = 1 / lambda_max of the Hessian in (W, V). Steps to perfect
classification beside the bound lambda_max epsilon / (2 max(1, loss at the start)), and lemma 4.1:
V stays within epsilon of cP.

Six sizes (L, n, M), three epsilon and three seeds; ":small" has three sizes and one seed. Both run
on a CPU.
"""

from lsa_jax.experiments.transformers.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Descent on W and V near cP: steps to perfect classification (theorem 4.4)",
        "question": "value_near",
        "lists": "random",
        "steps_after": 50,
        "sweep.cases": ((8, 3, 2), (8, 3, 3), (10, 4, 3), (12, 4, 3), (12, 6, 4), (14, 5, 4)),
        "sweep.epsilon": (0.1, 1.0, 4.0),
        "sweep.seed": (0, 1, 2),
    },
    small={
        "steps_after": 10,
        "sweep.cases": ((8, 3, 2), (10, 4, 3), (12, 4, 3)),
        "sweep.epsilon": (0.1, 1.0, 4.0),
        "sweep.seed": (0,),
    },
    quick={
        "steps_after": 1,
        "sweep.cases": ((6, 3, 2),),
        "sweep.epsilon": (1.0,),
        "sweep.seed": (0, 1),
    },
)
