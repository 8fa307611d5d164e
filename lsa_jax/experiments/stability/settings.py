"""Settings: the effect of one example on the models that SGD learns.

Sources of the defaults: Karp (thesis, 2024), chapter 2 and appendix A.
"""

from collections.abc import Callable
from typing import Any

from lsa_jax.checks import boolean, integer, number, one_of, optional, tuple_of
from lsa_jax.reporting.courses import OF_WEIGHTS
from lsa_jax.sweep.fields import (
    Config,
    Field,
    Rule,
    Settings,
    heading,
    measure_fields,
    product,
    product_of,
)
from lsa_jax.sweep.variants import configurations

LINEAR = ("logistic", "linear_regression")
NETWORKS = ("resnet", "linearized_resnet")
PERTURBATIONS = ("swap", "removal")

_SEED, _SIZE, _STEP = integer(0), integer(2), integer(1)
_LEARNER = one_of(*LINEAR, *NETWORKS)
_PERTURBATION = one_of(*PERTURBATIONS)

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Algorithmic stability of SGD"),
    "paper": Field(None, optional(one_of("fig2_1", "figA_1", "1a", "2a", "2b")),
        "compared with the thesis: figure 2.1 or A.1, or a configuration of table 2.1"),
    "question": Field("pairs", one_of("pairs", "influence"),
        "train on S and S'; or predict retraining without an example by influence functions"),
    "seed": Field(0, _SEED, "draws the start, the order and the samples"),
    "m": Field(800, _SIZE, "examples of S"),
    "pair": Field(0, integer(0), "which pair (S, S') of its size"),
    "learner": Field("logistic", _LEARNER, "linear models separate two halves of the classes"),
    "perturbation": Field("swap", _PERTURBATION, "S' has a test example in place of one, or none"),
    # Data: pixels over 255.
    "data.dataset": Field("mnist", one_of("mnist", "cifar10", "svhn", "digits"), "images"),
    "data.size": Field(None, optional(integer(1)),
        "side that images are resized to; None leaves them as they are"),
    "data.num_test": Field(None, optional(integer(1)), "random test examples; None takes all"),
    "data.test_seed": Field(0, _SEED, "draws the test examples"),
    # Networks.
    "model.depth": Field(20, integer(8), "6n + 2 layers"),
    "model.channels": Field(16, integer(1), "of the first group; then twice and four times these"),
    "model.statistics_batches": Field(10, integer(1),
        "batches of S whose mean statistics batch normalisation evaluates with"),
    # SGD.
    "training.batch_size": Field(128, integer(1), "examples an update"),
    "training.learning_rate": Field(0.1, number(0, above=True), "at the start"),
    "training.momentum": Field(0.0, number(0, 1), "heavy ball; 0 for none"),
    "training.decay_steps": Field((), tuple_of(_STEP), "updates at which the rate falls"),
    "training.decay_factor": Field(0.1, number(0, 1, above=True), "by how much it falls"),
    "training.weight_decay": Field(0.0, number(0), "lambda of lambda/2 |theta|^2"),
    "stops": Field((100_000,), tuple_of(_STEP), "updates after which models are measured"),
    "report_step": Field(None, optional(_STEP), "stop that the claims are about; None: the last"),
    "checkpoint_every": Field(2500, integer(1), "updates between checkpoints"),
    "eval_batch_size": Field(1000, integer(1), "examples at a time when measuring"),
    "max_replicas": Field(90, integer(1), "pairs that are trained together"),
    **measure_fields(
        OF_WEIGHTS,
        "batch normalisation couples the examples of a batch, and a linearisation's kernel stays",
    ),
    # Linear mode connectivity, at the stop `report_step`.
    "connectivity.sizes": Field((), tuple_of(_SIZE), "sizes m at which paths are measured"),
    "connectivity.pairs": Field(10, integer(1),
        "pairs of a size whose path is measured: the first"),
    "connectivity.num_alphas": Field(76, integer(2), "equally spaced alphas in [-1, 2]"),
    "connectivity.num_train": Field(None, optional(_STEP), "examples of S; None takes all"),
    "connectivity.num_test": Field(None, optional(_STEP), "test examples; None takes all"),
    "connectivity.statistics": Field("interpolated", one_of("interpolated", "recomputed"),
        "batch statistics on the path: between those of the ends, or of S at every alpha"),
    # Influence functions, for the logistic model with a ridge.
    "influence.ridge": Field(1e-3, number(0, above=True), "lambda of lambda/2 |w|^2"),
    "influence.removed": Field(40, integer(2), "examples that are left out, one at a time"),
    # The report.
    "fit.resamples": Field(1000, integer(10), "subsamples of the pairs of every size"),
    "fit.plain_axes": Field(False, boolean(), "draw panels with plain axes too, as figure A.1"),
    # Karp (thesis, 2024), appendix A.1: from 15,000 on the loss gap falls at one rate; over a wider
    # range, figure A.1 "reveals different regions of decrease".
    "fit.region_start": Field(15_000, _SIZE,
        "size from which the loss gap has one rate: figure A.1"),
    # The axes of the sweep.
    "sweep.learner": Field(("logistic",), tuple_of(_LEARNER), "learners"),
    "sweep.perturbation": Field(("swap",), tuple_of(_PERTURBATION), "kinds of S'"),
    "sweep.seed": Field((0,), tuple_of(_SEED), "trials: seeds of start, order and samples"),
    "sweep.m": Field((800, 1600, 3200, 6400, 12_800), tuple_of(_SIZE), "sizes of S"),
    "sweep.num_pairs": Field(90, integer(1), "pairs of every size"),
}
# fmt: on


def report_step(config: Config) -> int:
    """Returns the stop that the claims are about."""
    return max(config.stops) if config.report_step is None else config.report_step


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the points: learner x perturbation x seed x m x pair, or seed x m."""
    if config.question == "influence":
        return product_of("seed", "m")(config)
    axes = ("learner", "perturbation", "seed", "m")
    return product({n: config.sweep[n] for n in axes} | {"pair": range(config.sweep.num_pairs)})


# fmt: off
RULES = (
    Rule("stops", lambda c: c.stops and [*c.stops] == sorted(set(c.stops)), "one or more, rising"),
    Rule("report_step", lambda c: report_step(c) in c.stops, "one of {c.stops}"),
    Rule("learner", lambda c: c.question != "influence" or c.learner == "logistic",
         "'logistic' for influence functions"),
    Rule("influence.removed", lambda c: c.question != "influence" or c.influence.removed <= c.m,
         "at most m, {c.m}"),
    # The fall between two models needs both of them on the path, and a place between.
    Rule("connectivity.num_alphas",
         lambda c: not len(c.connectivity.sizes) or (c.connectivity.num_alphas >= 7
         and c.connectivity.num_alphas % 3 == 1),
         "3n + 1 and at least 7, which has places at both models and between them"),
    Rule("measures", lambda c: not c.measures or c.learner not in LINEAR,
         "() for linear models, which learn no features"),
    *(Rule(f"training.{name}",
           lambda c, n=name, plain=plain: c.learner not in LINEAR or c.training[n] == plain,
           f"{plain} for the linear learner {{c.learner!r}}")
      for name, plain in {"momentum": 0.0, "decay_steps": (), "weight_decay": 0.0}.items()),
    Rule("model.depth", lambda c: c.learner in LINEAR or c.model.depth % 6 == 2,
         "6n + 2, such as 20"),
    # Weight 0 takes an example out of the loss, but not out of the statistics of its batch.
    Rule("perturbation", lambda c: c.learner != "resnet" or c.perturbation != "removal",
         "'swap' for the learner 'resnet', whose batch normalisation would still see an example "
         "that is removed"),
)
# fmt: on

SETTINGS = Settings(FIELDS, sweep, RULES)

# Networks: the protocol that the configurations of Karp's thesis (2024), table 2.1, share.

_CIFAR10 = {
    "data.dataset": "cifar10",
    "training.batch_size": 128,
    "training.learning_rate": 0.1,
    "training.decay_steps": (32_000, 48_000),
}

# Table 2.1, by its names.
_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "1a": {
        "data.dataset": "svhn",
        "data.num_test": 10_000,
        "training.batch_size": 32,
        "training.learning_rate": 0.01,
    },
    "2a": _CIFAR10,
    "2b": _CIFAR10 | {"training.momentum": 0.9},
}

# ResNet-8 of a quarter of the channels, CIFAR-10 at 16 x 16, on CPU cores. The updates are as many
# as it takes to fit the most examples: before that the gap has another exponent at every stop.
_SMALL = {
    "data.dataset": "cifar10",
    "data.size": 16,
    "data.num_test": 500,
    "model.depth": 8,
    "model.channels": 4,
    "model.statistics_batches": 8,
    "training.batch_size": 32,
    "report_step": None,
    "checkpoint_every": 400,
    "eval_batch_size": 100,
    "max_replicas": 10,
    "connectivity.sizes": (250, 1000),
    "connectivity.pairs": 4,
    "connectivity.num_train": 250,
    "connectivity.num_test": 250,
    "sweep.seed": (0,),
    "sweep.m": (250, 500, 1000),
    "sweep.num_pairs": 40,
    "fit.resamples": 200,
}

# Training of each: twice the updates without momentum; half the sizes at half the rate.
_SMALL_TRAINING: dict[str, dict[str, Any]] = {
    "1a": {
        "training.batch_size": 16,
        "training.learning_rate": 0.05,
        "stops": (1600, 3200),
        "connectivity.sizes": (125, 500),
        "sweep.m": (125, 250, 500),
    },
    "2a": {"training.decay_steps": (2400,), "stops": (1600, 3200)},
    "2b": {"training.decay_steps": (1200,), "stops": (800, 1600)},
}

_QUICK = _SMALL | {
    "data.dataset": "digits",
    "data.size": None,
    "data.num_test": 20,
    "model.channels": 2,
    "training.batch_size": 8,
    "training.decay_steps": (3,),
    "stops": (2, 4),
    "checkpoint_every": 2,
    "eval_batch_size": 20,
    "max_replicas": 20,
    "connectivity.sizes": (16, 32),
    "connectivity.pairs": 2,
    "connectivity.num_alphas": 7,
    "sweep.m": (16, 24, 32),
    "sweep.num_pairs": 2,
    "fit.resamples": 20,
}


def configuration(
    name: str,
    full: dict[str, Any],
    small: dict[str, Any] | None = None,
    quick: dict[str, Any] | None = None,
) -> Callable[[str], Config]:
    """Returns `get_config`: ResNet-20, three trials, 40 pairs, 150,000 updates.

    `name` is of table 2.1; `small` changes both smaller variants (two CPU cores, tests), `quick`
    the one for tests alone.
    """
    protocol = {
        "learner": "resnet",
        "stops": (50_000, 100_000, 150_000),
        "report_step": 100_000,
        "checkpoint_every": 1000,
        "max_replicas": 20,
        "connectivity.sizes": (15_000, 50_000),
        "sweep.learner": ("resnet",),
        "sweep.seed": (0, 1, 2),
        "sweep.m": tuple(range(15_000, 50_001, 5000)),
        "sweep.num_pairs": 40,
    }
    own = small or {}
    return configurations(
        SETTINGS,
        full=protocol | _CONFIGURATIONS[name] | full,
        small=_SMALL | _SMALL_TRAINING[name] | own,
        quick=_QUICK | own | (quick or {}),
    )
