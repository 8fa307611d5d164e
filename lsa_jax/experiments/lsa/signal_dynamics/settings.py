"""Settings: how one filter learns to find a sparse signal.

Sources of the defaults: Karp et al. (NeurIPS 2021), section 4 and figure 3; thesis appendix B.3.
"""

from lsa_jax.checks import boolean, integer, number, one_of, optional, tuple_of
from lsa_jax.reporting.courses import OF_ANY
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product_of

# Settings of other networks and distributions than the paper's.
EXTENSIONS = ("num_features", "separate_filters", "stride")

_SEED, _NOISE_SCALE, _LEARNING_RATE = integer(0), number(0, 1000), number(0, above=True)

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Training dynamics of one filter"),
    "seed": Field(0, _SEED, "draws the initial filter and every example"),
    # The distribution.
    "k": Field(1000, integer(2), "noise rows of an example"),
    "d": Field(10, integer(1), "length of a row"),
    "noise_scale": Field(1.0, _NOISE_SCALE, "multiplies the noise's std, log(k) / sqrt(k)"),
    # Algorithm 1.
    "init_scale": Field(1e-6, number(1e-15), "std of the initial filter's entries"),
    "learning_rate": Field(0.1, _LEARNING_RATE, "eta_w, rate of the filter"),
    "bias_learning_rate_ratio": Field(None, optional(number(0)),
        "eta_b / eta_w; None takes the paper's 1 / k"),
    "batch_size": Field(500, integer(1), "fresh examples a step"),
    "steps": Field(10_000, integer(1), "steps of gradient descent"),
    "eval_every": Field(100, integer(1), "steps between evaluations; the last is always evaluated"),
    "num_test": Field(5000, integer(1), "fresh test examples at each evaluation"),
    "sampler": Field("shortcut", one_of("shortcut", "plain"),
        "draw only the numbers that the gradient depends on (same law, much faster), or every row"),
    # Extensions; each needs sampler "plain" and no population trajectory.
    "num_features": Field(1, integer(1), "orthogonal features that make up the signal"),
    "separate_filters": Field(False, boolean(),
        "the two halves of the activation have filters, thresholds, weights"),
    "stride": Field(None, optional(integer(1)),
        "of the filter over a vector with the signal anywhere in it"),
    "population": Field(True, boolean(),
        "the report adds the trajectory on the population loss (no sampling)"),
    **measure_fields(OF_ANY, "a single filter has no layer of features"),
    "checkpoint_every": Field(20, integer(1), "evaluations between checkpoints"),
    # The axes of the sweep; an empty one stays at the value above.
    "sweep.seed": Field((0, 1, 2), tuple_of(_SEED), "seeds"),
    "sweep.noise_scale": Field((), tuple_of(_NOISE_SCALE), "noise scales"),
    "sweep.learning_rate": Field((), tuple_of(_LEARNING_RATE), "learning rates"),
}
# fmt: on


def _is_extended(config: Config) -> bool:
    return any(config[name] != FIELDS[name].default for name in EXTENSIONS)


# fmt: off
_RULES = (
    Rule("sampler", lambda c: not _is_extended(c) or c.sampler == "plain",
         "'plain' with num_features, separate_filters or stride"),
    Rule("population", lambda c: not _is_extended(c) or not c.population,
         "False with num_features, separate_filters or stride"),
    Rule("num_features", lambda c: c.num_features <= c.d, "at most d = {c.d}"),
    Rule("stride", lambda c: c.stride is None or c.stride <= c.d, "at most d = {c.d}"),
    Rule("stride", lambda c: c.num_features == 1 or c.stride is None,
         "None with config.num_features = {c.num_features}"),
)
# fmt: on

_AXES = ("noise_scale", "learning_rate", "seed")
SETTINGS = Settings(FIELDS, product_of(*_AXES, optional=_AXES), _RULES)
