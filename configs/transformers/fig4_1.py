"""Figure 4.1, Karp 2024 (thesis): one step of descent on V picks up the permutation P.

    python -m launch.sweep --config=configs/transformers/fig4_1.py --workdir=runs/fig4_1

L = 200 tokens, sequences of n = 25, L_a = (a + 10, a + 20, a + 30, a) and pi(a) = a + 20 modulo L,
V_0 ~ N(0, 1e-8), W = 0, eta = L^2: on the whole population, by counting, and on 100 to 100,000
sampled sequences; ":small" has 10,000 at most. Both run on a CPU.
"""

from lsa_jax.experiments.transformers.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "V after one step of gradient descent (figure 4.1)",
        "question": "value_step",
        "lists": "cyclic",
        "list_step": 10,
        "label_shift": 20,
        "value_std": 1e-4,
        "vocabulary_size": 200,
        "sequence_length": 25,
        "list_length": 4,
        "sweep.cases": ((200, 25, 4),),
        "sweep.num_sequences": (100, 1000, 10_000, 100_000),
        "sweep.seed": (0, 1, 2),
    },
    small={"sweep.num_sequences": (100, 1000, 10_000), "sweep.seed": (0, 1, 2)},
    quick={
        "list_step": 2,
        "label_shift": 3,
        "vocabulary_size": 20,
        "sequence_length": 5,
        "list_length": 3,
        "sweep.cases": ((20, 5, 3),),
        "sweep.num_sequences": (50, 700),
        "sweep.seed": (0, 1),
    },
)
