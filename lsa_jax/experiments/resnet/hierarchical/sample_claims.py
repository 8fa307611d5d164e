"""From how many examples on targets are learned, beside what the paper proves of it."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.errors import (
    candidates,
    cells,
    errors_at,
    errors_claim,
)
from lsa_jax.experiments.resnet.hierarchical.claims import (
    LEARNED,
    answer_zero,
    of_series,
    planned,
    threshold,
    words_of,
)
from lsa_jax.experiments.resnet.hierarchical.settings import (
    FINITE_LEARNERS,
    NETWORK_LEARNERS,
    solved_sizes,
)
from lsa_jax.reporting.claims import measured, not_run
from lsa_jax.reporting.doubts import doubted
from lsa_jax.reporting.report import Claim, Status

TASK = ["d", "base_degree", "composite_degree", "outputs"]


class Course(NamedTuple):
    """What was measured of one learner of one width, on one target.

    Attributes:
        learner: its name.
        width: None of a limit.
        errors: of seeds, by N in increasing order; NaN where a run failed.
        chosen_of: how many candidates a search has; 1 of a kernel.
    """

    learner: str
    width: int | None
    errors: dict[int, pd.Series]
    chosen_of: int

    def decide(self, config: ml_collections.ConfigDict, bound: float) -> dict[int, Claim]:
        """Compares the errors with a bound, by N; a network's as the least of what was run."""
        tries = len(self.errors) if self.learner in NETWORK_LEARNERS else 1
        options = {"num_test": config.num_test, "tries": tries, "chosen_of": self.chosen_of}
        return {
            n: errors_claim(("", ""), errors, below=bound, **options)
            for n, errors in self.errors.items()
        }


def _tasks(config: ml_collections.ConfigDict) -> list[dict[str, float]]:
    """Returns the targets that a sweep asks for: members of `TASK`, and alpha and beta."""
    asked = config.sweep.tasks or (tuple(config[name] for name in TASK),)
    found = []
    for d, base, composite, *outputs in asked:
        k = (outputs or [None])[0] or d // base
        found.append(dict(zip(TASK, (d, base, composite, k), strict=True)))
    found.sort(key=lambda task: tuple(task.values()))
    return [task | {"alpha": config.alpha, "beta": config.beta} for task in found]


def _courses(config: ml_collections.ConfigDict, rows: pd.DataFrame) -> list[Course]:
    """Returns the course of every learner and width that a sweep asks for, run or not."""
    courses, (of_exact, of_limits) = [], solved_sizes(config)
    for series, (widths, seeds) in planned(config).items():
        sizes = of_exact if series[1] in FINITE_LEARNERS else config.sweep.num_train
        for width in widths:
            part = of_series(rows, *series)
            if width is None:
                sizes = of_limits
            else:
                part = part[part["width"] == width]
            errors = cells(part, "num_train", sorted(sizes or (config.num_train,)), seeds)
            courses.append(Course(series[1], width, errors, candidates(part)))
    return courses


def _first(decided: list[dict[int, Claim]]) -> int | None:
    """Returns the least N at which a learner surely is below the bound; None: at no N."""
    sure = [n for course in decided for n, claim in course.items() if claim.status == "shown"]
    return min(sure, default=None)


def _size(decided: list[dict[int, Claim]]) -> str:
    """Says at which N a learner surely is below the bound, or up to which N none is.

    That is as far as all went that were run: one that stops earlier says nothing of larger N.
    """
    first = _first(decided)
    if first is not None:
        return f"{first:g}"
    ran = [[n for n, claim in one.items() if claim.status != "not run"] for one in decided]
    return f"not surely to N = {min(max(sizes) for sizes in ran if sizes):,}"


def _reached(decided: list[dict[int, Claim]]) -> Status:
    """Says whether a learner gets below the bound at some N."""
    found = {claim.status for course in decided for claim in course.values()} - {"not run"}
    return next((status for status in ("shown", "undecided") if status in found), "not shown")


def _needs_more(kernel: dict[int, Claim], num_train: int) -> tuple[Status, str]:
    """Says whether a kernel needs more examples than that, and what it would take.

    It has to be above the bound up to there and, where that N was not run, at the next one.
    """
    if any(claim.status == "shown" for n, claim in kernel.items() if n <= num_train):
        return "not shown", ""
    last = min((n for n in kernel if n >= num_train), default=None)
    if last is None:
        return "undecided", f"a kernel was run to N = {max(kernel):,} alone"
    for n, claim in kernel.items():
        if n <= last and claim.status != "not shown":
            note = f"in the place of {num_train:,} a kernel is not above the bound"
            note = claim.note if claim.status == "undecided" else note
            return "undecided", f"at N = {n:,} {note}"
    return "shown", ""


def _fewer(nets: list[dict[int, Claim]], kernels: list[dict[int, Claim]]) -> tuple[Status, str]:
    """Says whether a network needs fewer examples than every kernel, and what it would take."""
    first = _first(nets)
    if first is None:
        return _reached(nets), ""
    found = [_needs_more(kernel, first) for kernel in kernels]
    against = [one for status in ("not shown", "undecided") for one in found if one[0] == status]
    return next(iter(against), ("shown", ""))


def _ran(courses: list[Course]) -> bool:
    return any(np.isfinite(e.astype(float)).any() for one in courses for e in one.errors.values())


def sample_claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> list[Claim]:
    """Returns from how many examples on G(F) is learned, and what theorem 2 says of its targets.

    Intervals decide, over seeds and test examples. Where no kernel gets there, all that is known is
    that it takes more than the largest N that was run. That kernels need many says nothing where
    the ResNet does not get there either, or where no kernel learns F.

    Args:
        config: of the sweep.
        runs: its results, of which those that failed have no error.
    """
    claims = []
    for task in _tasks(config):
        rows = runs[(runs[TASK] == [task[name] for name in TASK]).all(axis=1)]
        courses = _courses(config, rows)
        nets = [one for one in courses if one.learner in NETWORK_LEARNERS]
        kernels = [one for one in courses if one.learner not in NETWORK_LEARNERS]
        words = dict(zip(("d", "base", "composite"), map(task.get, TASK), strict=False))
        in_theorem = task["base_degree"] == 1 and task["composite_degree"] == task["outputs"]
        if in_theorem and most_samples(task["d"], task["outputs"]) > 1:
            claims += _bound_claims(config, task, courses, words)
        claims += _size_claims(config, task, nets, kernels, words)
    return claims


def _size_claims(
    config: ml_collections.ConfigDict,
    task: Mapping[str, float],
    nets: list[Course],
    kernels: list[Course],
    words: Mapping[str, object],
) -> list[Claim]:
    """Returns the least N of kernels and of the ResNet at which half of k alpha^2 is left."""
    bound = LEARNED * threshold(task)
    of_kernels = not_run(*words_of("kernel_samples", words))
    of_nets = not_run(*words_of("resnet_samples", words))
    decided = [one.decide(config, bound) for one in kernels]
    if _ran(kernels):
        of_kernels = measured(*of_kernels[:2], _size(decided))
    if not _ran(kernels) or not _ran(nets):
        return [of_kernels, of_nets]
    found = [one.decide(config, bound) for one in nets]
    status, note = _fewer(found, decided)
    of_nets = of_nets._replace(ours=_size(found), status=status, note=note)
    base = [one.decide(config, LEARNED * answer_zero(task)) for one in kernels]
    learned = "" if _reached(base) == "shown" else "no kernel learns the base signal either"
    return [of_kernels, doubted(of_nets, [learned])]


def most_samples(d: int, k: int) -> int:
    """Returns the largest N of theorem 2, and the largest dimension of theorem 3: C(d, k) / 1000.

    Source: Allen-Zhu and Li (arXiv 1905.10337), section 7.1, on the uniform cube.
    """
    return math.comb(int(d), int(k)) // 1000


def _up_to(courses: Sequence[Course], most: int) -> list[Course]:
    """Returns courses without the N above a number, and without those that then have none."""
    few = [{n: errors for n, errors in one.errors.items() if n <= most} for one in courses]
    return [one._replace(errors=errors) for one, errors in zip(courses, few, strict=True) if errors]


def _bound_claims(
    config: ml_collections.ConfigDict,
    task: Mapping[str, float],
    courses: Sequence[Course],
    words: Mapping[str, object],
) -> list[Claim]:
    """Returns what theorems 2 and 3 and corollary 7.1 say of linear F and one product of it.

    The theorems are of all N and all numbers of features up to one, which is the hardest: it has to
    have been run. Theorem 3 is of all weights; where there are more features than examples, those
    that were found are of the examples, and their error is that of theorem 2.
    """
    most, risk = most_samples(task["d"], task["outputs"]), task["alpha"] ** 2 / 16
    words = dict(words) | {"most": most, "risk": risk}
    nets = _up_to([one for one in courses if one.learner in NETWORK_LEARNERS], most)
    found = [one.decide(config, risk) for one in nets]
    # A bound that no learner gets below tells none apart.
    control = "" if _reached(found) == "shown" else "the ResNet is not shown to get there"

    fixed = [one for one in courses if one.learner not in (*NETWORK_LEARNERS, "last_exact")]
    kernels = _up_to(fixed, most)
    examples = min((max(one.errors) for one in kernels), default=most)
    short = f"kernels were run to N = {examples:,} of {most:,}" if examples < most else ""
    names = words_of("kernel_risk", words | {"examples": examples})
    claims = [_above(config, task, names, kernels, risk, control or short)]

    features = [one for one in courses if one.learner == "last_exact" and one.width <= most]
    examples = max((n for one in features for n in one.errors), default=most)
    width = max((one.width for one in features), default=most)
    short = f"{examples:,} examples do not fix {width:,} weights" if examples < width else ""
    short = f"{width:,} of {most:,} features were run" if width < most else short
    names = words_of("feature_risk", words | {"examples": examples, "features": width})
    claims.append(_above(config, task, names, features, risk, control or short))

    of_nets = not_run(*words_of("resnet_risk", words))
    if _ran(nets):
        of_nets = of_nets._replace(ours=_size(found), status=_reached(found))
    return [*claims, of_nets]


def _above(
    config: ml_collections.ConfigDict,
    task: Mapping[str, float],
    names: Sequence[str],
    courses: Sequence[Course],
    risk: float,
    unless: str,
) -> Claim:
    """Claims that kernels are above a risk at every N.

    A kernel of which nothing is known but a large error may be a broken one: the one that comes
    nearest has to have learned F, whose error is k beta^2.
    """
    errors = {
        (one, n): found for one, course in enumerate(courses) for n, found in course.errors.items()
    }
    claim = errors_at("every", names, errors, num_test=config.num_test, above=risk)
    if claim.status == "shown" and claim.high > LEARNED * answer_zero(task):
        unless = unless or "it does not learn the base signal either"
    return doubted(claim, [unless])
