r"""On the data of four papers: where does a kernel that learns close the gap to a network?

    python -m launch.sweep --config=configs/lazy_rich/papers.py --data_dir=DIR \
        --workdir=runs/lazy_rich_papers

The sparse signal as in figure 3 and in theorem 2 (Karp et al., 2021), MNIST in a corner, in noise
as in their figure 6, hidden patterns as in table 1 of Shi, Wei and Liang (2022), and F + 0.3 G(F)
of Allen-Zhu and Li (2019). On each the paper's network, exact regression with its NTK at the start
and after training, with a wide NTK (of infinite width, with ReLUs for hidden patterns; of 256
random filters for the sparse signal, where the infinite one takes k^2 operations a pair) and with
the recursive feature machine over the wide one. DIR holds mnist/.

Expected before: the NTK after training is nearer to the network than to the best fixed kernel on
all data; the recursive feature machine is on the sparse signal and on hidden patterns, where few
directions decide, and is not on figure 6 and F + 0.3 G(F).

Ours, and chosen by how well training examples are fitted: the sparse signal's filter starts at
1e-6, and the rate of its threshold rises over 150 of 600 epochs; 200 epochs leave a fifth of the
training examples wrong. It is trained by Adam on the examples that kernels have, where the paper's
Algorithm 1 takes steps of SGD on fresh ones. MNIST's images lie in a corner, as so few at random
places teach no learner much. Table 1's 50,000 examples are 2,000 here, and its network takes the
paper's two first steps on all of them. ":small" has fewer of each kind, and six seeds. Both run on
a CPU.
"""

from lsa_jax.experiments.lazy_rich.papers.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "sparse.num_train": 500,
    "sparse.num_test": 1000,
    "mnist.num_train": 1000,
    "mnist.num_test": 500,
    "patterns.num_train": 1000,
    "rfm.updates": 3,
    "rfm.points": 50,
    "sweep.seed": tuple(range(6)),
}

get_config = configurations(
    SETTINGS,
    full={"title": "Networks and kernels that learn, on the papers' data"},
    small=_SMALL,
    quick={
        "sparse.k": 20,
        "sparse.d": 4,
        "sparse.filters": 8,
        "sparse.num_train": 20,
        "sparse.num_test": 20,
        "sparse.epochs": 2,
        "mnist.num_train": 20,
        "mnist.num_test": 20,
        "mnist.epochs": 2,
        "patterns.num_train": 40,
        "patterns.num_test": 20,
        "patterns.width": 8,
        "patterns.epochs": 2,
        "hierarchical.num_train": 40,
        "hierarchical.num_test": 20,
        "hierarchical.width": 6,
        "hierarchical.epochs": 2,
        "ridge": (1e-2, 1e-1),
        "rfm.updates": 1,
        "rfm.points": 4,
        "sweep.seed": (0,),
    },
)
