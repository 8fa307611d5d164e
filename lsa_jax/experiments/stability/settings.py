"""Settings: what one example changes in what SGD learns.

Sources of the defaults: Karp (thesis, 2024), chapter 2 and appendix A.
"""

import ml_collections

from lsa_jax.checks import boolean, integer, number, one_of, optional, text, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.reporting.measure_names import OF_WEIGHTS
from lsa_jax.sweep.fields import Field, Settings, experiment_field, measure_fields, product

LINEAR = ("logistic", "linear_regression")
NETWORKS = ("resnet", "linearized_resnet")
PERTURBATIONS = ("swap", "removal")

_SEED, _SIZE, _STEP = integer(0), integer(2), integer(1)
_LEARNER = one_of(*LINEAR, *NETWORKS)
_PERTURBATION = one_of(*PERTURBATIONS)

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Algorithmic stability of SGD", text(), "heading of the report"),
    "paper": Field(
        None,
        optional(one_of("fig2_1", "figA_1", "1a", "2a", "2b")),
        "what of the thesis stands beside ours: figure 2.1 or A.1, or a configuration of table 2.1",
    ),
    "question": Field(
        "pairs",
        one_of("pairs", "influence"),
        "train on S and S'; or foretell retraining without an example by influence functions",
    ),
    "seed": Field(0, _SEED, "draws the start, the order and the samples"),
    "m": Field(800, _SIZE, "examples of S"),
    "pair": Field(0, integer(0), "which pair (S, S') of its size"),
    "learner": Field("logistic", _LEARNER, "linear models tell two halves of the classes apart"),
    "perturbation": Field("swap", _PERTURBATION, "S' has a test example in place of one, or none"),
    # Data: pixels over 255.
    "data.dataset": Field("mnist", one_of("mnist", "cifar10", "svhn", "digits"), "images"),
    "data.size": Field(
        None, optional(integer(1)), "side that images are resized to; None leaves them as they are"
    ),
    "data.num_test": Field(None, optional(integer(1)), "random test examples; None takes all"),
    "data.test_seed": Field(0, _SEED, "draws the test examples"),
    # Networks.
    "model.depth": Field(20, integer(8), "6n + 2 layers"),
    "model.channels": Field(16, integer(1), "of the first group; then twice and four times these"),
    "model.statistics_batches": Field(
        10, integer(1), "batches of S whose mean statistics batch normalisation evaluates with"
    ),
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
    "measures": measure_fields()["measures"],
    # Linear mode connectivity, at the stop `report_step`.
    "connectivity.sizes": Field((), tuple_of(_SIZE), "sizes m at which paths are measured"),
    "connectivity.pairs": Field(
        10, integer(1), "pairs of a size whose path is measured: the first"
    ),
    "connectivity.num_alphas": Field(76, integer(2), "equally spaced alphas in [-1, 2]"),
    "connectivity.num_train": Field(None, optional(_STEP), "examples of S; None takes all"),
    "connectivity.num_test": Field(None, optional(_STEP), "test examples; None takes all"),
    "connectivity.statistics": Field(
        "interpolated",
        one_of("interpolated", "recomputed"),
        "batch statistics on the path: between those of the ends, or of S at every alpha",
    ),
    # Influence functions, for the logistic model with a ridge.
    "influence.ridge": Field(1e-3, number(0, above=True), "lambda of lambda/2 |w|^2"),
    "influence.removed": Field(40, integer(2), "examples that are left out, one at a time"),
    # The report.
    "fit.resamples": Field(1000, integer(10), "subsamples of the pairs of every size"),
    "fit.plain_axes": Field(False, boolean(), "draw panels with plain axes too, as figure A.1"),
    # Karp (thesis, 2024), appendix A.1: from 15,000 on the loss gap falls at one rate; over a wider
    # range, figure A.1 "reveals different regions of decrease".
    "fit.region_start": Field(
        15_000, _SIZE, "size from which the loss gap has one rate: figure A.1"
    ),
    # The axes of the sweep.
    "sweep.learner": Field(("logistic",), tuple_of(_LEARNER), "learners"),
    "sweep.perturbation": Field(("swap",), tuple_of(_PERTURBATION), "kinds of S'"),
    "sweep.seed": Field((0,), tuple_of(_SEED), "trials: seeds of start, order and samples"),
    "sweep.m": Field((800, 1600, 3200, 6400, 12_800), tuple_of(_SIZE), "sizes of S"),
    "sweep.num_pairs": Field(90, integer(1), "pairs of every size"),
}


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns the swept settings of every point: learner x perturbation x seed x m x pair.

    Influence functions have one point a seed and size.
    """
    if config.question == "influence":
        return product({"seed": config.sweep.seed, "m": config.sweep.m})
    return product(
        {
            "learner": config.sweep.learner,
            "perturbation": config.sweep.perturbation,
            "seed": config.sweep.seed,
            "m": config.sweep.m,
            "pair": range(config.sweep.num_pairs),
        }
    )


def report_step(config: ml_collections.ConfigDict) -> int:
    """Returns the stop that the claims are about."""
    return max(config.stops) if config.report_step is None else config.report_step


def _check(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields fit together."""
    if not config.stops or list(config.stops) != sorted(set(config.stops)):
        raise InputError(f"config.stops is {config.stops}; accepted: one or more, rising")
    if report_step(config) not in config.stops:
        stops = ", ".join(map(str, config.stops))
        raise InputError(f"config.report_step is {config.report_step}; accepted: one of {stops}")
    if config.question == "influence" and config.learner != "logistic":
        raise InputError(
            f"config.learner is {config.learner!r}; accepted for influence functions: 'logistic'"
        )
    if config.question == "influence" and config.influence.removed > config.m:
        raise InputError(
            f"config.influence.removed is {config.influence.removed}; accepted: at most m, "
            f"{config.m}"
        )
    _check_places(config)
    _check_measures(config)
    if config.learner in LINEAR:
        _check_linear(config)
    else:
        _check_network(config)


def _check_places(config: ml_collections.ConfigDict) -> None:
    """Falls between two models need both of them on the path, and a place between."""
    count = config.connectivity.num_alphas
    if len(config.connectivity.sizes) and (count < 7 or count % 3 != 1):
        raise InputError(
            f"config.connectivity.num_alphas is {count}; accepted: 3n + 1 and at least 7, which "
            "has places at both models and between them"
        )


# Why there is no more to measure of a network than its weights.
_NO_KERNEL = {
    "resnet": "whose batch normalisation couples the examples of a batch",
    "linearized_resnet": "whose kernel and features stay as they are",
}


def _check_measures(config: ml_collections.ConfigDict) -> None:
    """Linear models have no layers that could learn features."""
    if set(config.measures) <= (set() if config.learner in LINEAR else set(OF_WEIGHTS)):
        return
    why = _NO_KERNEL.get(config.learner, "which learns no features")
    accepted = () if config.learner in LINEAR else OF_WEIGHTS
    raise InputError(
        f"config.measures is {config.measures!r}; accepted for the learner {config.learner!r}, "
        f"{why}: {accepted!r}"
    )


def _check_network(config: ml_collections.ConfigDict) -> None:
    """Weight 0 takes an example out of the loss, but not out of the statistics of its batch."""
    if config.model.depth % 6 != 2:
        raise InputError(f"config.model.depth is {config.model.depth}; accepted: 6n + 2, as 20")
    if config.learner == "resnet" and config.perturbation == "removal":
        raise InputError(
            "config.perturbation is 'removal'; accepted for the learner 'resnet', whose batch "
            "normalisation would still see another example in its place: 'swap'"
        )


def _check_linear(config: ml_collections.ConfigDict) -> None:
    """Linear models are trained by plain SGD, on data of one row an example."""
    for name, plain in (("momentum", 0.0), ("decay_steps", ()), ("weight_decay", 0.0)):
        if config.training[name] != plain:
            raise InputError(
                f"config.training.{name} is {config.training[name]}; accepted for the linear "
                f"learner {config.learner!r}: {plain}"
            )


SETTINGS = Settings(FIELDS, sweep, check=_check)
default_config, validate = SETTINGS.default_config, SETTINGS.validate
