"""Claims about hierarchical targets beta F + alpha G(F), stated before any run.

Bounds are shares of k alpha^2: the error of an answer that has all of F and nothing of G(F).

Source: Allen-Zhu and Li (NeurIPS 2019), sections 3 and 8.1, figures 2 and 3, theorem 1; numbers of
examples: arXiv 1905.10337, theorems 1 to 3 and corollary 7.1.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy

from lsa_jax.experiments.resnet.hierarchical.settings import LEARNERS, NETWORK_LEARNERS, TASK
from lsa_jax.reporting.claims import Claim, Condition, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, ends, half_length, variance
from lsa_jax.reporting.statistics import minus, value
from lsa_jax.sweep.fields import Config

# Half of a signal is learned: G(F) with less than this share of k alpha^2 left.
LEARNED = 0.5
# Width from which the paper's ResNet learns, by its trained layers (figure 2).
RESNET_WIDTHS = {"all": 50, "hidden": 200}
# Kernel whose claim is primary: that of the ResNet, trained by SGD as in the paper.
PRIMARY_KERNEL = {"net": "3resnet", "learner": "ntk"}
# Least constant of theorem 1's bound on the error, constant * alpha^4.
ALPHA_CONSTANT = 1.0
# No kernel has a risk below this share of alpha^2 with N to C(d, k) over this (theorem 2).
RISK, SAMPLES = 1 / 16, 1000

KERNELS = tuple(name for name in LEARNERS if name not in NETWORK_LEARNERS)
_FEATURES = "last_exact"
_CELL = ["net", "learner", "width", "num_train"]
_RESNET_LEARNS = "the ResNet learns"


def threshold(row: Mapping | Config) -> float:
    """Returns k alpha^2."""
    return (row["outputs"] or row["d"] // row["base_degree"]) * row["alpha"] ** 2


def most_samples(d: int, k: int) -> int:
    """Returns the largest N of theorem 2, and the largest number of features of theorem 3."""
    return math.comb(d, k) // SAMPLES


def series_name(net: str, learner: str) -> str:
    """Returns a net and a learner as in the paper's legends."""
    return learner if net == "none" else f"{net}({learner})"


def _series(config: Config, resnet: bool | None = None) -> list[dict[str, str]]:
    """Returns the nets and learners of a sweep: all, the paper's ResNets, or all others."""
    axes = config.sweep
    every = (*axes.series, *axes.baselines, *axes.exact, *axes.limits)
    return [
        {"net": net, "learner": learner}
        for net, learner in every
        if resnet in (None, net == "3resnet" and learner in RESNET_WIDTHS)
    ]


def _errors(
    config: Config,
    item: str,
    which: str,
    bound: float,
    runs: Mapping[str, Any],
    by: Sequence[str] = ("width",),
    column: str = "test_error",
    **stated: Any,
) -> Claim:
    """Returns a claim that all errors of runs, or one of them, are above or below a bound.

    `by` and `which` are those of `statistics.decisive`. Networks that learn have chosen their
    settings by the error on test examples, for which their intervals allow.
    """
    best = _chosen(config) if which.endswith("below") else {}
    statistic = decisive(by, which, bound, column=column, **best, **runs)
    return Claim(item, statistic, **{which.split()[-1]: bound}, **stated)


def _chosen(config: Config) -> dict[str, int]:
    """Returns the number of searched settings; the least test error over them counts."""
    return {"chosen": len(config.search.learning_rates) * len(config.search.weight_decays)}


def _learns(
    config: Config, item: str, runs: Mapping[str, Any], which: str = "one below", **stated: Any
) -> Claim:
    """Returns the claim that less than half of G(F) is left, at the best m or at all."""
    bound = LEARNED * threshold(config)
    paper = f"learns: below k alpha^2 / 2 = {bound:g}"
    return _errors(config, f"error {item}", which, bound, runs, paper=paper, **stated)


def _fails(
    config: Config, item: str, runs: Mapping[str, Any], learn: Sequence[Claim], **stated: Any
) -> Claim:
    """Returns the claim that nothing of G(F) is learned, where some claim of learning is shown."""
    bound, item = threshold(config), f"error at the best m, {item}"
    stated["paper"] = f"does not learn: above k alpha^2 = {bound:g}"
    stated["conditions"] = (shown(learn, _RESNET_LEARNS),)
    return _errors(config, item, "all above", bound, runs, **stated)


def resnet_claims(config: Config) -> list[Claim]:
    """Figure 2: the ResNet learns G(F) at every width from the paper's."""
    claims = []
    for runs in _series(config, resnet=True):
        first = RESNET_WIDTHS[runs["learner"]]
        wide = runs | {"width": tuple(m for m in config.sweep.width if m >= first)}
        item = f"of {series_name(**runs)} at its worst m from {first}"
        claims.append(_learns(config, item, wide, "all below", primary=True))
    return claims


def width_claims(config: Config) -> list[Claim]:
    """Figure 2: the ResNet learns G(F), other nets and kernels do not."""
    learn = resnet_claims(config)
    return learn + [
        _fails(config, series_name(**runs), runs, learn, primary=runs == PRIMARY_KERNEL)
        for runs in _series(config, resnet=False)
    ]


def net_claims(config: Config) -> list[Claim]:
    """Figure 2, and the ResNet of equation 2.1, whose matrix has no bottleneck."""
    return resnet_claims(config) + [
        _learns(config, f"at the best m, {series_name(**runs)}: a skip, no bottleneck", runs)
        for runs in _series(config)
        if runs["net"] == "3resnet_full"
    ]


def beta_claims(config: Config) -> list[Claim]:
    """Figure 3: G(F) is learned where beta is above alpha, and not below."""
    claims, betas = [], config.sweep.beta
    for size, series in product(config.sweep.num_train or (config.num_train,), _series(config)):
        at = {
            b: (f"N = {size:,}, beta = {b:g}", series | {"num_train": size, "beta": b})
            for b in betas
        }
        above, below = ([at[b] for b in betas if sign * (b - config.alpha) > 0] for sign in (1, -1))
        learn = [_learns(config, f"at the best m, {words}", runs) for words, runs in above]
        claims += learn + [_fails(config, *one, learn) for one in below]
    return claims


def alpha_claims(config: Config) -> list[Claim]:
    """Theorem 1: the error is of order alpha^4."""
    axes, listed = config.sweep, ", ".join(f"{a:g}" for a in sorted(config.sweep.alpha))
    claims, stated = [], {"by": ["alpha"], "column": "error_over_alpha4", "primary": True}
    stated["paper"] = f"below {ALPHA_CONSTANT:g}: of order alpha^4 (theorem 1)"
    for size, width in product(axes.num_train or (config.num_train,), axes.width):
        item = f"error over alpha^4 at the worst of alpha = {listed}, N = {size:,}, m = {width:,}"
        runs = _series(config)[0] | {"num_train": size, "width": width}
        claims.append(_errors(config, item, "all below", ALPHA_CONSTANT, runs, **stated))
    return claims


def epoch_claims(config: Config) -> list[Claim]:
    """Section 3: the base signal is learned first, the composite one not by kernels."""

    def missed(runs: Mapping[str, str], **stated: Any) -> Claim:
        """Returns a claim about the share that outputs miss, which has a correlation's error."""

        def statistic(every: Runs) -> Sample:
            return of_seeds(every.where(**runs), "composite_error", lambda n: 2 / n**0.5)

        item = f"share of the composite signal missed at the end, {series_name(**runs)}"
        return Claim(item, statistic, **stated)

    resnets, others = _series(config, resnet=True), _series(config, resnet=False)
    learns = shown([missed(runs, below=LEARNED) for runs in resnets], _RESNET_LEARNS)
    item = "epochs from half of the base to half of the composite signal, "
    stated = {"paper": f"above {LEARNED:g}: not learned", "above": LEARNED}
    between = {"paper": "above 0: base before composite (section 3)", "above": 0.0, "digits": 1}
    claims = []
    for runs in resnets:
        epochs = _epochs_between(runs, config.watch_every)
        claims.append(Claim(item + series_name(**runs), epochs, conditions=(learns,), **between))
    return claims + [missed(runs, conditions=(learns,), **stated) for runs in others]


def _epochs_between(runs: Mapping[str, str], watch_every: int) -> Statistic:
    """Returns the difference of two epochs, each rounded to the next look in all seeds."""
    between = minus(value("composite_epoch", **runs), value("base_epoch", **runs))
    rounding = watch_every / 6**0.5
    return lambda every: (one := between(every))._replace(
        error=rounding if len(one.values) > 1 else 0.0
    )


def sample_claims(config: Config) -> list[Claim]:
    """Numbers of examples: theorems 2 and 3 (linear F, G of all outputs), and the least N."""
    claims, own = [], tuple(config[name] for name in TASK)
    for d, base, composite, *outputs in sorted(config.sweep.tasks or (own,)):
        k = (outputs or [None])[0] or d // base
        task = dict(zip(TASK, (d, base, composite, k), strict=True))
        if base == 1 and composite == k and most_samples(d, k) > 1:
            claims += _theorem_claims(config, task)
        claims.append(_fewer(config, task, primary=(d, base, composite) == own[:3]))
    return claims


def _without(runs: Runs, n: float) -> str:
    """Names the learners that were not run with some N; "" where all were."""
    groups = runs.finished.groupby(_CELL[:3], dropna=False)["num_train"]
    return ", ".join(f"{net}({of})" for (net, of, _), sizes in groups if n not in set(sizes))


def _fewer(config: Config, task: Mapping[str, int], primary: bool) -> Claim:
    """Claims that kernels are above half of k alpha^2 up to the least N of the ResNet."""
    bound, best = LEARNED * threshold({**task, "alpha": config.alpha}), _chosen(config)
    nets, kernels = task | {"learner": NETWORK_LEARNERS}, task | {"learner": KERNELS}

    def least_n(runs: Runs, **options: Any) -> float:
        cells = by_cell(runs, _CELL, **options).items()
        found = (n for (*_, n), one in cells if ends(one)[1] < math.log(bound))
        return min(found, default=math.inf)

    def of_nets(runs: Runs) -> float:
        return least_n(runs.where(**nets), best=True, **best)

    def of_kernels(runs: Runs) -> Sample:
        most = of_nets(runs)
        return decisive(_CELL, "all above", bound, num_train=lambda n: n <= most, **kernels)(runs)

    def in_words(runs: Runs) -> str:
        words = f"{of_nets(runs):,} / {least_n(runs.where(**kernels)):,}".replace("inf", "at no N")
        return f"{words}; kernels have {math.exp(of_kernels(runs).values.mean()):.3g}"

    learns = _errors(config, "", "one below", bound, nets, _CELL)
    every = Condition(
        "all kernels were run with that N",
        lambda runs: _without(runs.where(**kernels), of_nets(runs)),
    )
    return Claim(
        "least N with less than half of k alpha^2 left, ResNet / kernels, "
        "d = {d:g}, degrees {base_degree:g} x {composite_degree:g}".format(**task),
        of_kernels,
        paper=f"kernels' error above {bound:g} at the N of the ResNet (theorems 1 and 2)",
        above=bound,
        conditions=(shown(learns, "the ResNet gets there"), every),
        primary=primary,
        ours=in_words,
    )


def _theorem_claims(config: Config, task: Mapping[str, int]) -> list[Claim]:
    """Returns the claims of theorems 2 and 3 and of corollary 7.1, about bounds on risks."""
    most, risk = most_samples(task["d"], task["outputs"]), RISK * config.alpha**2
    where = f"linear F, d = {task['d']:g}, degree {task['outputs']:g}"
    fixed = tuple(name for name in KERNELS if name != _FEATURES)
    few = {"num_train": lambda n: n <= most, **task}
    kernels, features = {"learner": fixed, **few}, {"learner": _FEATURES, **task}
    features["width"] = lambda m: m <= most

    def fewer(runs: Runs) -> str:
        rows = runs.where(**features).finished
        return "" if ((rows["width"] == most) & (rows["num_train"] >= most)).any() else "fewer"

    def least(of: str, which: str, runs: Mapping[str, Any], words: str, *known: Condition) -> Claim:
        paper = f"{which.split()[-1]} alpha^2 / 16 = {risk:.2g} with {words}"
        stated = {"paper": paper, "conditions": known}
        return _errors(config, f"least error of {of}, {where}", which, risk, runs, _CELL, **stated)

    nets, up_to = {"learner": NETWORK_LEARNERS, **few}, f"N to {most:,}"
    network = least("the ResNet", "one below", nets, f"{up_to} (corollary 7.1)")
    known, of_features = shown(network, "the ResNet is below"), f"{most:,} features"
    to_most = Condition(
        f"all have N = {most:,}", lambda runs: _without(runs.where(**kernels), most)
    )
    enough = Condition(f"{of_features} were run, with as many examples", fewer)
    # fmt: off
    return [
        least("a kernel", "all above", kernels, f"{up_to} (theorem 2)", known, to_most),
        least("regression on features", "all above", features, f"{of_features} (theorem 3)",
              known, enough),
        network,
    ]
    # fmt: on


CLAIMS = {
    "width": width_claims,
    "beta": beta_claims,
    "alpha": alpha_claims,
    "nets": net_claims,
    "samples": sample_claims,
    "epochs": epoch_claims,
}


# --- errors at several settings -----------------------------------------------------------------

# No error is taken to be smaller.
_LEAST = 1e-30


def of_seeds(own: Runs, column: str, error: Callable[[int], float]) -> Sample:
    """Returns a column by seed, for one seed with the error due to its test examples."""
    counts, found = own.finished["num_test"], value(column)(own)._replace(shared=False)
    count = int(counts.min()) if len(counts) else None
    return found._replace(error=error(count) if count else 0.0, count=count)


def by_cell(
    own: Runs, by: Sequence[str], *, column: str = "test_error", best: bool = False, chosen: int = 1
) -> dict[tuple, Sample]:
    """Returns errors at several settings, such as widths, on a logarithmic scale.

    One seed has the error due to its test examples, several seeds have Student's interval. `best`
    is whether the best setting is of interest, for which Bonferroni's correction allows; each seed
    uses the best of `chosen` candidates.
    """
    groups = list(own.finished.groupby(list(by), dropna=False))
    tries = len(groups) if best else 1
    found = {
        key: _of_cell(own._replace(finished=rows), column, tries, chosen) for key, rows in groups
    }
    return {key: sample for key, sample in found.items() if len(sample.values)}


def _of_cell(own: Runs, column: str, tries: int, chosen: int) -> Sample:
    """Returns the errors at one of several settings, whose seeds each chose a candidate.

    The choice makes the error of every seed too small, so its allowance does not shrink with seeds.
    """
    sample = of_seeds(own, column, lambda count: _relative_error(own, count))
    sample = sample._replace(values=np.log(sample.values.clip(lower=_LEAST)), scale="log")
    seeds, mean = len(sample.values), float(sample.values.mean())

    def wider(tail: float) -> tuple[float, float]:
        spread = half_length(variance(sample), seeds, tail / tries) if seeds > 1 else 0.0
        allowed = scipy.stats.norm.isf(tail / (tries * chosen)) * sample.error
        reach = np.hypot(spread, allowed if seeds == 1 or chosen > 1 else 0.0)
        return mean - reach, mean + reach

    return sample._replace(ends=wider if tries * chosen > 1 else None)


def _relative_error(own: Runs, count: int) -> float:
    """Returns the relative standard error of a mean squared error.

    That of the kept errors; without them, sqrt(2 / n) as for squares of n normal numbers.
    """
    ids = list(own.finished.get("id", []))
    if not ids or any(one not in own.outcomes for one in ids):
        return (2 / count) ** 0.5
    kept = [np.square(own.outcomes[one].values, dtype=float) for one in ids]
    return float(np.mean([one.std() / max(one.mean(), _LEAST) / len(one) ** 0.5 for one in kept]))


def decisive(
    by: Sequence[str],
    claim: Literal["all above", "all below", "one below"],
    bound: float,
    *,
    column: str = "test_error",
    chosen: int = 1,
    **settings: Any,
) -> Statistic:
    """Returns the error that decides a claim about the errors at several settings.

    The first that exists of: an error whose whole interval decides by itself, such as below a bound
    that all are claimed to be above; one whose interval contains the bound; the nearest error. See
    `by_cell`.
    """
    sign, best = -1 if claim == "all below" else 1, claim == "one below"

    def place(sample: Sample) -> tuple[int, float]:
        low, high = sorted(sign * float(end) for end in ends(sample))
        not_below = sum(end >= sign * math.log(bound) for end in (low, high))
        return not_below, high if best else low

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        found = by_cell(own, by, column=column, best=best, chosen=chosen)
        decides = min(found.values(), key=place, default=Sample(pd.Series(dtype=float)))
        return decides._replace(lost=own.lost(column))

    return statistic
