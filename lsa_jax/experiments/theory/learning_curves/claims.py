"""Claims on learning curves, stated before any run of this experiment.

Predictions are within 5 % on digits in noise and on MNIST up to a sixth of the pool, for kernels
that do not depend on the drawn examples; learnabilities within 0.05, in groups of modes. Clean
digits had a ratio of 0.94 in an earlier measurement, and of 0.99 with random eigenvectors.

Exponents: Vyas, Bansal and Nakkiran (2022). The network's is larger than those of its NTK at the
start and at infinite width, and of a kernel that has learned from a fixed number of examples.
"""

from lsa_jax.experiments.theory.learning_curves.settings import (
    CHANGES,
    FIXED,
    LEARNERS,
    TASKS,
    counts_of,
    pool_of,
)
from lsa_jax.reporting.claims import Claim, Condition, enough
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import highest, minus, slope, times, value
from lsa_jax.sweep.fields import Config

MARGIN = 0.05  # of a predicted error, as a share of the measured one
GAP = 0.05  # of a learnability
PART = 6  # of a pool, up to which predictions are claimed
PREDICTED = ("digits_noise", "mnist")
# Learners whose exponent is larger than the second's, where there is a network.
_AHEAD = (
    *(("network", kernel) for kernel in ("ntk_start", "ntk_infinite", "ntk_fixed")),
    ("ntk_trained", "ntk_fixed"),
)
_LEARNS = 0.9  # a learner has learned whose error is below this share of the targets' variance


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on predictions and, with a network, on exponents."""
    learners, axes, claims = config.sweep.learner, config.sweep, []
    for task in axes.task:
        near = tuple(n for n in axes.num_train if n <= pool_of(config, task) // PART)
        for learner in [name for name in FIXED if name in learners] if near else ():
            claims += _predicted(task, learner, near)
        if task in axes.changed:
            claims += [
                _changed(task, change, counts)
                for change in axes.change
                if (counts := counts_of(config, task, change))
            ]
        claims += [_ahead(task, *pair) for pair in _AHEAD if {*pair, "network"} <= {*learners}]
    return claims


def _furthest(counts: tuple[int, ...], **at: object) -> Statistic:
    """Returns how far predictions are at most above or below the measurement."""
    ratios = [value("ratio", num_train=n, **at) for n in counts]
    return highest([times(ratio, sign, -sign) for ratio in ratios for sign in (1, -1)])


def _predicted(task: str, learner: str, counts: tuple[int, ...]) -> list[Claim]:
    at = {"task": task, "learner": learner, "change": "none"}
    where = f"n to {max(counts)}: {LEARNERS[learner]}, {TASKS[task].label}"
    gap = highest([value("learnability_gap", num_train=n, **at) for n in counts])
    claimed, learned = task in PREDICTED, _learned(max(counts), **at)
    error = f"a predicted error, over the measured one, {where}"
    return [
        _at_most(MARGIN if claimed else None, error, _furthest(counts, **at), learned),
        _at_most(GAP if claimed else None, f"a group's mean learnability, {where}", gap, learned),
    ]


def _changed(task: str, change: str, counts: tuple[int, ...]) -> Claim:
    at = {"task": task, "learner": "ntk_infinite", "change": change}
    words = f"a predicted error, all n, {CHANGES[change]}: infinite NTK, {TASKS[task].label}"
    bound = MARGIN if change == "random_eigenvectors" else None
    return _at_most(bound, words, _furthest(counts, **at), _learned(max(counts), **at))


def _at_most(bound: float | None, of: str, statistic: Statistic, learned: Condition) -> Claim:
    """Returns the claim on a largest deviation, which is only measured where it has no bound."""
    stated = {} if bound is None else {"below": bound, "conditions": (learned,)}
    return Claim(f"largest deviation of {of}", statistic, **stated)


def _learned(largest: int, **at: object) -> Condition:
    """Returns the condition that a learner has learned, as any theory predicts an error of 1."""

    def unmet(runs: Runs) -> str:
        error = value("test_error", num_train=largest, **at)(runs).values.mean()
        return "" if not error >= _LEARNS else f"an error of {error:.2f} of the variance"

    return Condition("the learner has learned", unmet)


def exponent(task: str, learner: str) -> Statistic:
    """Returns the statistic of exponents by seed: minus the slope of log error on log n."""
    return times(slope("test_error", "num_train", task=task, learner=learner, change="none"), -1)


def _ahead(task: str, first: str, second: str) -> Claim:
    """Returns the claim that the first learner's exponent is larger than the second's."""
    item = f"exponent of the {LEARNERS[first]} minus that of the {LEARNERS[second]}: "
    apart = minus(exponent(task, first), exponent(task, second))
    counts = enough("num_train", 3, "three numbers of examples", task=task, learner=first)
    return Claim(item + TASKS[task].label, apart, above=0.0, conditions=(counts,))
