"""Settings: steps and samples to a small error, as k grows.

Source: Karp et al. (NeurIPS 2021), theorem 1. Training is as in `lsa/signal_dynamics`.
"""

from lsa_jax.checks import integer, number, one_of, tuple_of
from lsa_jax.experiments.lsa.signal_dynamics import settings
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, product

_SEED, _K, _NOISE_SCALE = integer(0), integer(3), number(0, 1000, above=True)

# Settings of training alone, without its report's setting and its axes.
_TRAINING = {
    name: field
    for name, field in settings.FIELDS.items()
    if name != "population" and not name.startswith("sweep.")
}

# fmt: off
FIELDS: dict[str, Field] = {
    **_TRAINING,
    **heading(__name__, "Steps and samples to a small error"),
    "learner": Field("sgd", one_of("sgd", "population"),
        "Algorithm 1 on minibatches, or the population gradient's flow (no sampling)"),
    "k": Field(1024, _K, "noise rows of an example"),
    "d": Field(10, integer(2), "length of a row"),
    "noise_scale": Field(0.5, _NOISE_SCALE, "multiplies the noise's std, log(k) / sqrt(k)"),
    "steps": Field(100_000, integer(1), "steps at which a run ends at the latest"),
    "eval_every": Field(20, integer(1), "steps between evaluations"),
    "num_test": Field(500, integer(1), "fresh test examples at each evaluation"),
    "checkpoint_every": Field(100, integer(1), "evaluations between checkpoints"),
    "target_error": Field(0.01, number(1e-6, 0.4),
        "exact error of the network at which a run ends"),
    "duration": Field(1e8, number(1.0), "rate times steps at which the flow ends at the latest"),
    # The axes of the sweep: learners x noise scales x k, for "sgd" also x seeds.
    "sweep.seed": Field((0, 1), tuple_of(_SEED), "seeds"),
    "sweep.k": Field((16, 64, 256, 1024), tuple_of(_K), "numbers of noise rows, sgd"),
    "sweep.noise_scale": Field((0.5,), tuple_of(_NOISE_SCALE), "noise scales, sgd"),
    "sweep.population_k": Field((16, 64, 256, 1024), tuple_of(_K), "the same, population"),
    "sweep.population_noise_scale": Field((0.5, 1.0), tuple_of(_NOISE_SCALE), "the same"),
}
# fmt: on


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the swept settings of every point: the flows first, then the runs on minibatches."""
    axes = config.sweep
    flows = {"noise_scale": axes.population_noise_scale, "k": axes.population_k}
    runs = {"noise_scale": axes.noise_scale, "k": axes.k, "seed": axes.seed}
    return product({"learner": ("population",)} | flows) + product({"learner": ("sgd",)} | runs)


_RULES = tuple(
    Rule(
        name,
        lambda c, name=name: c[name] == FIELDS[name].default,
        f"{FIELDS[name].default!r}, as the exact error is known for the paper's network alone",
    )
    for name in settings.EXTENSIONS
)

SETTINGS = Settings(FIELDS, sweep, _RULES)
