"""Claims on learning curves, stated before any run of this experiment.

Predictions: within 5 % on digits in noise and on MNIST up to a sixth of the pool, for kernels that
do not depend on the drawn examples; learnabilities within 0.05, in groups of modes. Clean digits
had a ratio of 0.94 in an earlier measurement, and of 0.99 with random eigenvectors: that those
bring the prediction to within 5 % for all numbers of examples was stated after these numbers.

Exponents: Vyas, Bansal and Nakkiran (2022). The network's is larger than those of its NTK at the
start and at infinite width, and a kernel that has learned from a fixed number of examples does not
keep up.
"""

import numpy as np

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
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import highest, minus, slope, value
from lsa_jax.sweep.fields import Config

MARGIN = 0.05  # of a predicted error, as a share of the measured one
GAP = 0.05  # of a learnability
PART = 6  # of a pool, up to which predictions are claimed
PREDICTED = ("digits_noise", "mnist")
_LEARNS = 0.9  # a learner has learned whose error is below this share of the targets' variance


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on predictions and, with a network, on exponents."""
    learners, axes = config.sweep.learner, config.sweep
    claims = []
    for task in axes.task:
        near = tuple(n for n in axes.num_train if n <= pool_of(config, task) // PART)
        for learner in [name for name in FIXED if name in learners] if near else ():
            claims += _predicted(task, learner, near)
        if task in axes.changed:
            claims += [
                _changed(task, change, counts_of(config, task, change)) for change in axes.change
            ]
        if "network" in learners:
            claims += _exponents(task, learners)
    return claims


def _off(sign: int, **at: object) -> Statistic:
    """Returns the statistic of how far a prediction is above (1) or below (-1) the measurement."""

    def statistic(runs: Runs) -> Sample:
        sample = value("ratio", **at)(runs)
        return sample._replace(values=sign * (sample.values - 1))

    return statistic


def _furthest(counts: tuple[int, ...], **at: object) -> Statistic:
    return highest([_off(sign, num_train=n, **at) for n in counts for sign in (1, -1)])


def _learned(largest: int, **at: object) -> Condition:
    """Returns the condition that a learner has learned, as any theory predicts an error of 1."""

    def unmet(runs: Runs) -> str:
        error = value("test_error", num_train=largest, **at)(runs).values.mean()
        return "" if not error >= _LEARNS else f"an error of {error:.2f} of the variance"

    return Condition("the learner has learned", unmet)


def _predicted(task: str, learner: str, counts: tuple[int, ...]) -> list[Claim]:
    at = {"task": task, "learner": learner, "change": "none"}
    conditions = (_learned(max(counts), **at),)
    is_claimed, what = task in PREDICTED, f"{LEARNERS[learner]}, {TASKS[task].label}"
    ratio = Claim(
        item=f"largest deviation of a predicted error, over the measured one, n to {max(counts)}: "
        f"{what}",
        statistic=_furthest(counts, **at),
        below=MARGIN if is_claimed else np.inf,
        conditions=conditions if is_claimed else (),
    )
    gap = Claim(
        item=f"largest deviation of a group's mean learnability, n to {max(counts)}: {what}",
        statistic=highest([value("learnability_gap", num_train=n, **at) for n in counts]),
        below=GAP if is_claimed else np.inf,
        conditions=conditions if is_claimed else (),
    )
    return [ratio, gap]


def _changed(task: str, change: str, counts: tuple[int, ...]) -> Claim:
    at = {"task": task, "learner": "ntk_infinite", "change": change}
    is_claimed = change == "random_eigenvectors"
    return Claim(
        item=f"largest deviation of a predicted error, all n, {CHANGES[change]}: infinite NTK, "
        f"{TASKS[task].label}",
        statistic=_furthest(counts, **at),
        below=MARGIN if is_claimed else np.inf,
        conditions=(_learned(max(counts), **at),) if is_claimed else (),
    )


def exponent(task: str, learner: str) -> Statistic:
    """Returns the statistic of exponents by seed: minus the slope of log error on log n."""
    falling = slope("test_error", "num_train", task=task, learner=learner, change="none")

    def statistic(runs: Runs) -> Sample:
        sample = falling(runs)
        return sample._replace(values=-sample.values)

    return statistic


def _exponents(task: str, learners: tuple[str, ...]) -> list[Claim]:
    label = TASKS[task].label

    def ahead(first: str, second: str) -> Claim:
        return Claim(
            item=f"exponent of the {LEARNERS[first]} minus that of the {LEARNERS[second]}: {label}",
            statistic=minus(exponent(task, first), exponent(task, second)),
            above=0.0,
            conditions=(
                enough("num_train", 3, "three numbers of examples", task=task, learner=first),
            ),
        )

    pairs = [("network", "ntk_start"), ("network", "ntk_infinite"), ("network", "ntk_fixed")]
    pairs += [("ntk_trained", "ntk_fixed")]
    return [ahead(*pair) for pair in pairs if {*pair} <= {*learners}]
