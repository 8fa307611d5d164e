"""Settings: one trained filter against fixed filters, trained sums.

Sources of the defaults: Karp et al. (NeurIPS 2021), section 5 (theorem 2) and section 3.
"""

import math

from lsa_jax.checks import integer, number, one_of, optional, tuple_of
from lsa_jax.experiments.lsa.signal_dynamics import settings
from lsa_jax.sweep.fields import Config, Field, Settings, heading, product

_SEED, _K, _M = integer(0), integer(10), integer(1)
# Fields of Algorithm 1 that its own experiment has too.
_NETWORK = ("init_scale", "learning_rate", "bias_learning_rate_ratio", "batch_size", "steps")

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "What fixed filters can represent"),
    "seed": Field(0, _SEED, "draws the initial filters and every example"),
    "learner": Field("kernel", one_of("network", "kernel", "linear"),
        "Algorithm 1, the finite CNTK, or sum_i <w*, X_i> (section 3)"),
    # The distribution: sigma^2 = 1 / d.
    "k": Field(1000, _K, "noise rows of an example"),
    "d": Field(None, optional(integer(2)), "length of a row; None takes k / log(k)^2, rounded"),
    "m": Field(1, _M, "filters of the kernel"),
    "num_test": Field(3000, integer(1), "fresh test examples"),
    # The kernel: thresholds by search, weights by discriminant and logistic regression.
    "pass_fractions": Field((0.3, 0.1, 0.03, 0.01), tuple_of(number(0, 1, above=True), empty=False),
        "common thresholds that are tried, as the share of noise rows that pass"),
    "search_sweeps": Field(2, integer(0), "rounds of choosing each filter's threshold in turn"),
    "search_starts": Field(3, integer(1), "starts of that search, the best ones"),
    "search_filters": Field(32, integer(1), "kernels of more filters are not searched filterwise"),
    "max_features": Field(4500, integer(1), "kernels with more weights are left out of the sweep"),
    "num_train": Field(3000, integer(1), "examples that logistic regression fits"),
    "num_validation": Field(1500, integer(1), "examples that choose between the fits"),
    "penalties": Field((1.0, 0.1, 0.01, 0.001), tuple_of(number(0, above=True), empty=False),
        "of logistic regression, on the distance from the discriminant"),
    # The network: Algorithm 1.
    **{f"network.{name}": settings.FIELDS[name] for name in _NETWORK},
    "network.eval_every": Field(1000, integer(1), "steps between evaluations"),
    "network.checkpoint_every": Field(1, integer(1), "evaluations between checkpoints"),
    **{name: settings.FIELDS[name] for name in ("measures", "measured_examples")},
    # The axes of the sweep.
    "sweep.k": Field((1000,), tuple_of(_K), "noise rows"),
    "sweep.m": Field((1, 2, 4, 8, 16, 32), tuple_of(_M), "filters of the kernel"),
    "sweep.seed": Field((0, 1, 2), tuple_of(_SEED), "seeds of the kernels"),
    "sweep.network_seed": Field((0, 1, 2), tuple_of(_SEED), "seeds of the networks"),
    "sweep.linear_seed": Field((0, 1, 2), tuple_of(_SEED), "seeds of the linear classifier"),
}
# fmt: on


def row_length(config: Config, k: int | None = None) -> int:
    """Returns d: as set, or the whole number next to k / log(k)^2.

    There theorem 2's sigma^2 = 1 / d is sigma = log(k) / sqrt(k) as well.

    Source: Karp et al. (2021), sections 3 and 5.
    """
    k = config.k if k is None else k
    return round(k / math.log(k) ** 2) if config.d is None else config.d


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the swept settings of every point: for each k network, linear classifier, kernels.

    Kernels have m filters times the dimension that they and w* span as weights; those with more
    than `max_features` are left out.
    """
    axes, points = config.sweep, []
    for k in axes.k:
        d = row_length(config, k)
        small = [m for m in axes.m if m * min(d, m + 1) <= config.max_features]
        points += product({"learner": ("network",), "k": (k,), "seed": axes.network_seed})
        points += product({"learner": ("linear",), "k": (k,), "seed": axes.linear_seed})
        points += product({"learner": ("kernel",), "k": (k,), "m": small, "seed": axes.seed})
    return points


SETTINGS = Settings(FIELDS, sweep)
