"""Configuration fields: the best linear model on random features, and the network.

Sources of the defaults: Shi, Wei and Liang (ICLR 2022), theorem 2, corollary 3 and appendix E.1.1.
"""

from lsa_jax.checks import integer, number, one_of, tuple_of
from lsa_jax.experiments.feature_learning.learning import settings
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, product

_SEED, _N = integer(0), integer(1)
FEATURES = ("neurons", "rbf")
_CASE = tuple_of(integer(1))

# Fields of the network's own experiment that this one has too.
_NETWORK = ("m", "steps", "batch_size", "rate", "momentum", "eval_every")

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "What fixed features can represent"),
    "learner": Field("neurons", one_of("network", *FEATURES),
        "a trained network; linear models on random neurons, or on random features of an RBF"),
    "seed": Field(0, _SEED, "draws the problem, the examples and the features"),
    # The parity mixture.
    "num_patterns": Field(100, integer(2), "D, patterns; inputs are in their span"),
    "k": Field(5, integer(1), "class-relevant patterns, an odd number"),
    "p0": Field(0.5, number(0, 2 / 3), "share of examples that are parities of fair coins"),
    "num_train": Field(20_000, integer(1), "examples that every learner fits"),
    "num_validation": Field(5000, integer(1), "examples that choose between a linear model's fits"),
    "num_test": Field(10_000, integer(1), "fresh test examples"),
    # The features.
    "N": Field(100, _N, "number of features"),
    "bandwidths": Field((0.5, 1.0, 2.0), tuple_of(number(0, above=True), empty=False),
        "rbf: scales of the kernel that are tried; inputs have a mean squared length of 1"),
    "penalties": Field((1e-2, 1e-4, 1e-6), tuple_of(number(0, above=True), empty=False),
        "on the weights' squared length, tried"),
    "max_iterations": Field(200, integer(1), "of L-BFGS"),
    # The network: as in experiments.feature_learning.
    **{f"network.{name}": settings.FIELDS[name] for name in _NETWORK},
    # The axes of the sweep.
    "sweep.cases": Field(((100, 5), (30, 3)), tuple_of(_CASE), "(D, k)"),
    "sweep.N": Field((10, 30, 100, 300, 1000, 3000), tuple_of(_N), "numbers of features"),
    "sweep.features": Field(FEATURES, tuple_of(one_of(*FEATURES)), "kinds of features"),
    "sweep.seed": Field((0, 1, 2, 3, 4), tuple_of(_SEED), "seeds"),
}
# fmt: on


def _sweep(config: Config) -> list[dict[str, object]]:
    """Returns the networks of each case (D, k), then its linear models."""
    axes, points = config.sweep, []
    for d, k in axes.cases:
        case = {"num_patterns": (d,), "k": (k,), "seed": axes.seed}
        points += product({"learner": ("network",)} | case)
        points += product({"learner": axes.features} | case | {"N": axes.N})
    return points


# fmt: off
_RULES = (
    Rule("sweep.cases", lambda c: all(len(case) == 2 for case in c.sweep.cases), "pairs (D, k)"),
    Rule("k", lambda c: c.k % 2 and c.k <= c.num_patterns,
         "odd numbers up to num_patterns, {c.num_patterns}"),
    Rule("network.batch_size", lambda c: c.num_train % c.network.batch_size == 0,
         "divisors of the {c.num_train} training examples"),
)
# fmt: on

SETTINGS = Settings(FIELDS, _sweep, _RULES)
