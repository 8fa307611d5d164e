"""Configuration fields: learned and fixed features on hidden patterns.

Sources of the defaults: Shi, Wei and Liang (ICLR 2022), appendix E.1.1. The paper gives no rates of
its classifiers, NTK and random features, and no size of its test set; those below are ours.
"""

import itertools
from typing import Any

from lsa_jax.checks import boolean, integer, number, one_of, optional, tuple_of
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product

LEARNERS = (
    *("network", "ntk", "random_features", "one_step", "two_step", "memorise"),
    *("one_step_exact", "two_step_exact"),  # on the features after either step, least squares
)

_LEARNER, _SEED, _RATE = one_of(*LEARNERS), integer(0), number(0, above=True)
_WEIGHTS = one_of("none", "first_steps", "all_steps")
_STD, _SHARE = number(0, above=True), number(0, 1)

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Feature learning on hidden patterns"),
    "paper_item": Field(None, optional(one_of(*FEATURE_LEARNING)),
        "the paper's table that ours is compared with"),
    # One point.
    "learner": Field("network", _LEARNER, "learner"),
    "structured": Field(True, boolean(),
        "inputs with structure; otherwise every pattern is a fair coin"),
    "seed": Field(0, _SEED, "draws the problem, the data, the initial network, the batches"),
    # The data.
    "data.labels": Field("parity", one_of("parity", "interval", "vectors"), "rule and law"),
    "data.d": Field(500, integer(1), "dimension of an input"),
    "data.num_patterns": Field(100, integer(1), "D, patterns of the dictionary"),
    "data.k": Field(5, integer(1), "class-relevant patterns"),
    "data.dictionary": Field("orthonormal", one_of("orthonormal", "incoherent"),
        "columns of M (appendix F: incoherent)"),
    "data.noise_std": Field(0.0, number(0), "of zeta in x = M phi + zeta (appendix F)"),
    "data.p0": Field(0.5, number(0, 2 / 3), "parity: share of independent patterns"),
    "data.ones_share": Field(0.5, _SHARE, "parity: all ones rather than zeros in the other part"),
    "data.probability_spread": Field(0.0, number(0, 0.5),
        "parity: patterns are there with probabilities 1/2 to 1/2 plus this, in the first part"),
    "data.interval": Field((20, 30), tuple_of(integer(0)), "interval: least and largest count"),
    "data.relevant_probability": Field(2 / 3, _SHARE, "interval: of each relevant pattern"),
    "data.vectors_per_class": Field(50, integer(1), "vectors: random phi_A of a label"),
    "data.negative_share": Field(None, optional(_SHARE),
        "share of label -1; None: as the law has it"),
    "data.num_train": Field(50_000, integer(1), "training examples"),
    "data.num_test": Field(10_000, integer(1), "test examples"),
    # The network and its first two steps.
    "m": Field(300, integer(1), "half of the neurons"),
    "weight_std": Field(None, optional(_STD), "of w; None takes k^(-1/2)"),
    "bias_std": Field(0.4, _STD, "of b; the theory's k^(-2) leaves features small"),
    "output_std": Field(None, optional(_STD), "of a; None takes s^2 / (gamma k^2)"),
    "first_rate": Field(1e-6, _RATE, "eta of step 1"),
    "leftover": Field(0.045, number(0),
        "w keeps this times eta of its start in step 1; 0, as in the theory, keeps nothing"),
    "second_rate": Field(None, optional(_RATE), "eta of step 2; None: by feature_scale"),
    "feature_scale": Field(0.8, _STD,
        "root mean square of <w, x> after step 2, over neurons that fire in step 1"),
    "smoothing": Field(0.0, number(0), "std of the noise in the neurons, steps 1 and 2"),
    "class_weights": Field("first_steps", _WEIGHTS,
        "updates in which both classes have equal weight; the first steps are 1 and 2"),
    # Later steps, and all steps of the linear models.
    "steps": Field(600, integer(3), "updates in all"),
    "batch_size": Field(1000, integer(1), "examples a later step; divides the training examples"),
    "momentum": Field(0.9, number(0, 1), "of all later steps"),
    "rate": Field(0.1, _RATE, "network, one_step, two_step: rate of later steps"),
    "ntk_rate": Field(1e-5, _RATE, "ntk: rate"),
    "random_features_rate": Field(0.03, _RATE, "random_features: rate"),
    "memorise.epochs": Field(100, integer(1), "memorise: passes over the data, by Adam"),
    "memorise.rate": Field(0.01, _RATE, "memorise: rate at the start; falls to 0 as a cosine"),
    "memorise.output_std": Field(0.05, _STD, "memorise: of a"),
    # Measures.
    **measure_fields(),
    "eval_every": Field(20, integer(1), "steps between evaluations; the last is always evaluated"),
    "checkpoint_every": Field(10, integer(1), "evaluations between checkpoints"),
    "angle": Field(15.0, number(0, 90), "degrees: share of neurons this close to +-sum_A M_j"),
    "pictures": Field(True, boolean(), "scale the weights of the first seed's network to 2-D"),
    # The axes of the sweep: learners x seeds, then other rates of the fixed features.
    "sweep.learner": Field(
        ("network", "ntk", "random_features", "one_step", "one_step_exact", "two_step"),
        tuple_of(_LEARNER), "with structure"),
    "sweep.unstructured_learner": Field(("network", "ntk", "random_features", "memorise"),
        tuple_of(_LEARNER), "without structure"),
    "sweep.seed": Field((0, 1, 2, 3, 4), tuple_of(_SEED), "seeds"),
    "sweep.ntk_rate": Field((1e-6, 1e-4), tuple_of(_RATE), "other rates, first seed"),
    "sweep.random_features_rate": Field((0.003, 0.3), tuple_of(_RATE), "other rates, first seed"),
    "sweep.first_rate": Field((1.0, 10.0), tuple_of(_RATE), "One Step: other rates of step 1"),
    "sweep.leftover": Field((0.0,), tuple_of(number(0)), "One Step: other leftovers, at each rate"),
    "sweep.ntk_steps": Field((), tuple_of(integer(3)), "ntk: other numbers of updates, all seeds"),
    "sweep.ntk_long_rate": Field(None, optional(_RATE), "ntk: rate of those; None: ntk_rate"),
    "sweep.class_weights": Field((), tuple_of(_WEIGHTS), "other weightings"),
    "sweep.weighted_learner": Field(("network", "two_step"), tuple_of(_LEARNER),
        "with structure, at other weightings"),
    "sweep.more_learner": Field((), tuple_of(_LEARNER),
        "with more seeds; with structure if it is in sweep.learner"),
    "sweep.more_seed": Field((), tuple_of(_SEED), "these seeds"),
}
# fmt: on


def _sweep(config: Config) -> list[dict[str, object]]:
    """Returns the learners with structure and without, then other rates, steps and weights."""
    axes = config.sweep

    def runs(structured: bool, learners: tuple[str, ...], **changed: object) -> list[dict]:
        own = {"learner": learners, "structured": (structured,), "seed": axes.seed}
        return [point | changed for point in product(own)]

    points = runs(True, axes.learner) + runs(False, axes.unstructured_learner)
    more = [seed for seed in axes.more_seed if seed not in axes.seed]
    for learner in axes.more_learner:
        own = {"learner": learner, "structured": learner in axes.learner}
        points += [own | {"seed": seed} for seed in more]
    for learner in ("ntk", "random_features"):
        name = f"{learner}_rate"
        for rate in axes[name] if learner in axes.learner else ():
            if rate != config[name]:
                points += runs(True, (learner,), **{name: rate})[:1]  # of the first seed
    for learner in ("one_step", "one_step_exact"):
        if learner in axes.learner:
            for rate, leftover in first_steps(config)[1:]:
                points += runs(True, (learner,), first_rate=rate, leftover=leftover)
    longer = {} if axes.ntk_long_rate is None else {"ntk_rate": axes.ntk_long_rate}
    for steps in dict.fromkeys(axes.ntk_steps) if "ntk" in axes.learner else ():
        if steps != config.steps:  # with as many evaluations
            every = max(config.eval_every * steps // config.steps, 1)
            points += runs(True, ("ntk",), steps=steps, eval_every=every, **longer)
    for weights in axes.class_weights:
        if weights != config.class_weights:
            points += runs(True, axes.weighted_learner, class_weights=weights)
    return points


def first_steps(config: Config) -> list[tuple[float, float]]:
    """Returns One Step's rates of step 1 and leftovers, the configuration's own first."""
    axes = config.sweep
    kinds = itertools.product(
        dict.fromkeys((config.first_rate, *axes.first_rate)),
        dict.fromkeys((config.leftover, *axes.leftover)),
    )
    return list(kinds)


def rate_of(config: Config | dict[str, Any]) -> float:
    """Returns the learner's rate of all steps after the first ones; otherwise of the first."""
    own = {
        "ntk": config["ntk_rate"],
        "random_features": config["random_features_rate"],
        "memorise": config["memorise"]["rate"],
        "one_step_exact": config["first_rate"],
        "two_step_exact": config["first_rate"],
    }
    return own.get(config["learner"], config["rate"])


def described(config: Config | dict[str, Any]) -> dict[str, object]:
    """Returns the settings of a point that are columns of its results."""
    names = ("first_rate", "leftover", "steps", "class_weights")
    own = {name: config[name] for name in ("learner", "structured", "seed")}
    return own | {"rate": rate_of(config)} | {name: config[name] for name in names}


def planned(config: Config) -> list[dict[str, object]]:
    """Returns the columns of settings of every point of a sweep."""
    return [described({**config, **point}) for point in _sweep(config)]


# fmt: off
_RULES = (
    Rule("data.k", lambda c: c.data.k <= c.data.num_patterns,
         "at most num_patterns, {c.data.num_patterns}"),
    Rule("data.k", lambda c: c.data.labels != "parity" or c.data.k % 2,
         "odd numbers with parity labels"),
    Rule("data.interval", lambda c: c.data.labels != "interval" or (
         len(c.data.interval) == 2 and c.data.interval[0] <= c.data.interval[1] <= c.data.k),
         "(least, largest), at most k"),
    Rule("structured", lambda c: c.data.labels != "vectors" or c.structured,
         "True with hidden vectors"),
    Rule("data.num_patterns",
         lambda c: c.data.dictionary != "orthonormal" or c.data.num_patterns <= c.data.d,
         "at most d = {c.data.d} for an orthonormal dictionary"),
    Rule("batch_size", lambda c: c.data.num_train % c.batch_size == 0,
         "divisors of the {c.data.num_train} training examples"),
)
# fmt: on

SETTINGS = Settings(FIELDS, _sweep, _RULES)
