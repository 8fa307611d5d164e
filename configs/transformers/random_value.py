"""Left open by Karp 2024 (thesis, section 4.3.4): W and V trained together from a random V.

    python -m launch.sweep --config=configs/transformers/random_value.py --workdir=runs/random_value

Theorem 4.4 starts near cP. Here V_0 = c ((1 - r) P + r U), the entries of U uniform on [-1, 1],
goes from cP at r = 0 to a random V at r = 1, and W_0 = 0; descent is on the whole population.
The share of runs that classify perfectly by the strict rule, against V_0's distance from cP.

Three sizes (L, n, M), four c and five seeds; ":small" has (8, 3, 2) alone, two c and three seeds.
Both run on a CPU.
"""

from lsa_jax.experiments.transformers.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "W and V trained from a V that is more or less random (thesis, chapter 4)",
        "question": "value_random",
        "lists": "random",
        "learning_rate": 10.0,
        "steps": 5000,
        "eval_every": 50,
        "checkpoint_every": 10,
        "sweep.cases": ((8, 3, 2), (10, 4, 3), (12, 4, 3)),
        "sweep.value_scale": (0.01, 1.0, 3.0, 10.0),
        "sweep.randomness": (0.0, 0.25, 0.5, 0.75, 1.0),
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    small={
        "steps": 1000,
        "sweep.cases": ((8, 3, 2),),
        "sweep.value_scale": (0.01, 3.0),
        "sweep.randomness": (0.0, 0.5, 1.0),
        "sweep.seed": (0, 1, 2),
    },
    quick={
        "steps": 40,
        "eval_every": 20,
        "checkpoint_every": 1,
        "sweep.cases": ((5, 3, 2),),
        "sweep.value_scale": (3.0,),
        "sweep.randomness": (0.0, 1.0),
        "sweep.seed": (0,),
    },
)
