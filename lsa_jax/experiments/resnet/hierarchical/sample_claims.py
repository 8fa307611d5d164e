"""Claims about the number of examples from which targets are learned, stated before any run.

Source: Allen-Zhu and Li (arXiv 1905.10337): theorems 1 to 3 and corollary 7.1 (section 7.1). The
last three are about linear F, G of one product of all of its outputs, and the uniform cube.
"""

import math
from collections.abc import Callable, Mapping

from lsa_jax.experiments.resnet.hierarchical.claims import LEARNED, Config, candidates, threshold
from lsa_jax.experiments.resnet.hierarchical.settings import LEARNERS, NETWORK_LEARNERS
from lsa_jax.experiments.resnet.statistics import by_cell, decisive
from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, ends

TASK = ["d", "base_degree", "composite_degree", "outputs"]
# No kernel has a risk below this share of alpha^2 with N to C(d, k) over this (theorem 2).
RISK, SAMPLES = 1 / 16, 1000

KERNELS = tuple(name for name in LEARNERS if name not in NETWORK_LEARNERS)
_FEATURES = "last_exact"
_LEARNER = ["net", "learner", "width"]
_CELL = [*_LEARNER, "num_train"]


def most_samples(d: int, k: int) -> int:
    """Returns the largest N of theorem 2, and the largest number of features of theorem 3."""
    return math.comb(d, k) // SAMPLES


def sample_claims(config: Config) -> list[Claim]:
    """Returns the claims about every target: theorems that are about it, and the least N."""
    claims, own = [], tuple(config[name] for name in TASK)
    for d, base, composite, *outputs in sorted(config.sweep.tasks or (own,)):
        k = (outputs or [None])[0] or d // base
        task = dict(zip(TASK, (d, base, composite, k), strict=True))
        if base == 1 and composite == k and most_samples(d, k) > 1:
            claims += _theorem_claims(config, task)
        claims.append(_fewer(config, task, primary=(d, base, composite) == own[:3]))
    return claims


def _up_to(runs: Runs, column: str, most: float) -> Runs:
    planned, finished = (
        rows[rows[column] <= most] if column in rows else rows for rows in runs[:2]
    )
    return runs._replace(planned=planned, finished=finished)


def _without(runs: Runs, n: float) -> str:
    """Names the learners that were not run with some N; "" where all were."""
    groups = runs.finished.groupby(_LEARNER, dropna=False)["num_train"]
    return ", ".join(f"{net}({of})" for (net, of, _), sizes in groups if n not in set(sizes))


def _fewer(config: Config, task: Mapping[str, int], primary: bool) -> Claim:
    """Claims that kernels are above half of k alpha^2 up to the least N of the ResNet."""
    bound, chosen = LEARNED * threshold({**task, "alpha": config.alpha}), candidates(config)
    nets, kernels = task | {"learner": NETWORK_LEARNERS}, task | {"learner": KERNELS}
    of_net = decisive(_CELL, "one below", bound, chosen=chosen, **nets)
    above = decisive(_CELL, "all above", bound)

    def least_n(runs: Runs, **options) -> float:
        cells = by_cell(runs, _CELL, **options).items()
        found = (n for (*_, n), one in cells if ends(one)[1] < math.log(bound))
        return min(found, default=math.inf)

    def of_nets(runs: Runs) -> float:
        return least_n(runs.where(**nets), best=True, chosen=chosen)

    def of_kernels(runs: Runs) -> Sample:
        return above(_up_to(runs.where(**kernels), "num_train", of_nets(runs)))

    def in_words(runs: Runs) -> str:
        words = f"{of_nets(runs):,} / {least_n(runs.where(**kernels)):,}".replace("inf", "at no N")
        return f"{words}; kernels have {math.exp(of_kernels(runs).values.mean()):.3g}"

    gets_there = Claim(item="", statistic=of_net, below=bound)
    every = Condition(
        "all kernels were run with that N",
        lambda runs: _without(runs.where(**kernels), of_nets(runs)),
    )
    return Claim(
        item="least N with less than half of k alpha^2 left, ResNet / kernels, "
        "d = {d:g}, degrees {base_degree:g} x {composite_degree:g}".format(**task),
        statistic=of_kernels,
        paper=f"kernels' error above {bound:g} at the N of the ResNet (theorems 1 and 2)",
        above=bound,
        conditions=(shown(gets_there, "the ResNet gets there"), every),
        primary=primary,
        ours=in_words,
    )


def _theorem_claims(config: Config, task: Mapping[str, int]) -> list[Claim]:
    """Returns the claims of theorems 2 and 3 and of corollary 7.1: a risk above or below a bound.

    They are about all N and numbers of features up to one, which is the hardest. Theorem 3 is about
    all weights: with fewer examples than features, learned features depend on the examples.
    """
    most, risk = most_samples(task["d"], task["outputs"]), RISK * config.alpha**2
    where, chosen = f"linear F, d = {task['d']:g}, degree {task['outputs']:g}", candidates(config)
    of_net = decisive(_CELL, "one below", risk, chosen=chosen, learner=NETWORK_LEARNERS, **task)
    network = Claim(
        item=f"least error of the ResNet, {where}",
        statistic=lambda runs: of_net(_up_to(runs, "num_train", most)),
        paper=f"below alpha^2 / 16 = {risk:.2g} with N to {most:,} (corollary 7.1)",
        below=risk,
    )
    below, all_above = shown(network, "the ResNet is below"), decisive(_CELL, "all above", risk)

    def kernels(runs: Runs) -> Runs:
        fixed = tuple(name for name in KERNELS if name != _FEATURES)
        return _up_to(runs.where(learner=fixed, **task), "num_train", most)

    def features(runs: Runs) -> Runs:
        return _up_to(runs.where(learner=_FEATURES, **task), "width", most)

    def few(runs: Runs) -> str:
        rows = features(runs).finished
        return "" if ((rows["width"] == most) & (rows["num_train"] >= most)).any() else "fewer"

    def above(learner: str, own: Callable[[Runs], Runs], to: str, ran: Condition) -> Claim:
        return Claim(
            item=f"least error of {learner}, {where}",
            statistic=lambda runs: all_above(own(runs)),
            paper=f"above alpha^2 / 16 = {risk:.2g} with {to}",
            above=risk,
            conditions=(below, ran),
        )

    to_most = Condition(f"all have N = {most:,}", lambda runs: _without(kernels(runs), most))
    enough = Condition(f"{most:,} features were run, with as many examples", few)
    return [
        above("a kernel", kernels, f"N to {most:,} (theorem 2)", to_most),
        above("regression on features", features, f"{most:,} features (theorem 3)", enough),
        network,
    ]
