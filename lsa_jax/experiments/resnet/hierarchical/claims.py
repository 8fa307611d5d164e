"""Claims about hierarchical targets beta F + alpha G(F), stated before any run.

Most are about the errors of some runs at several settings: `_errors` makes them from a statement of
`STATEMENTS`, whose bounds are shares of k alpha^2, the error of an answer that has all of F and
nothing of G(F).

Source: Allen-Zhu and Li (NeurIPS 2019), sections 3 and 8.1, figures 2 and 3, theorem 1; numbers of
examples: arXiv 1905.10337, theorems 1 to 3 and corollary 7.1.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import ml_collections

from lsa_jax.experiments.resnet.hierarchical.settings import (
    LEARNERS,
    NETWORK_LEARNERS,
    SEARCHED,
    TASK,
)
from lsa_jax.experiments.resnet.statistics import by_cell, decisive, of_seeds
from lsa_jax.reporting.claims import Claim, Condition, decide, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, ends
from lsa_jax.reporting.statistics import minus, slope, value

# Half of a signal is learned: G(F) with less than this share of k alpha^2 left.
LEARNED = 0.5
# Statements about the errors at several m: the errors they are about, their bound over k alpha^2
# (None: measured), the paper's words.
STATEMENTS: dict[str, tuple[str, float | None, str]] = {
    "learns at all m": ("all below", LEARNED, "learns: below k alpha^2 / 2 = {bound:g}"),
    "learns": ("one below", LEARNED, "learns: below k alpha^2 / 2 = {bound:g}"),
    "does not learn": ("all above", 1.0, "does not learn: above k alpha^2 = {bound:g}"),
    "border": ("all above", None, "about where learning ends"),
    "open": ("all above", None, "not tried"),
}
# Width from which the paper's ResNet learns, by its trained layers (figure 2).
RESNET_WIDTHS = {"all": 50, "hidden": 200}
# Kernel whose claim is primary: that of the ResNet, trained by SGD as in the paper.
PRIMARY_KERNEL = {"net": "3resnet", "learner": "ntk"}
# Parts of the ResNet by themselves: the skip (of equation 2.1), the bottleneck.
PARTS = {
    "3resnet_full": ("learns", "a skip, no bottleneck"),
    "3layer_bottleneck": ("open", "a bottleneck, no skip"),
}
# Least constant of theorem 1's bound on the error, constant * alpha^4.
ALPHA_CONSTANT = 1.0
# No kernel has a risk below this share of alpha^2 with N to C(d, k) over this (theorem 2).
RISK, SAMPLES = 1 / 16, 1000

KERNELS = tuple(name for name in LEARNERS if name not in NETWORK_LEARNERS)
_FEATURES = "last_exact"
_CELL = ["net", "learner", "width", "num_train"]

Config = ml_collections.ConfigDict


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


def _chosen(config: Config, looks: int = 1) -> dict[str, int]:
    """Returns the number of searched settings; the least test error over them counts."""
    search = config.search
    return {"chosen": looks * len(search.learning_rates) * len(search.weight_decays)}


def _errors(
    config: Config,
    item: str,
    statement: str,
    runs: Mapping[str, Any],
    *conditions: Condition,
    column: str = "test_error",
    looks: int = 1,
    primary: bool = False,
) -> Claim:
    """Returns a statement about errors of runs at several m, as a claim."""
    which, share, paper = STATEMENTS[statement]
    bound = (1.0 if share is None else share) * threshold(config)
    best = _chosen(config, looks) if which.endswith("below") else {}
    return Claim(
        item=item,
        statistic=decisive(["width"], which, bound, column=column, **best, **runs),
        paper=paper.format(bound=bound),
        conditions=conditions,
        primary=primary,
        **({} if share is None else {which.split()[-1]: bound}),
    )


def _any_shown(controls: Sequence[Claim]) -> Condition:
    """Returns the condition that a ResNet learns, as one of the controls shows."""

    def unmet(runs: Runs) -> str:
        found = [decide(claim, runs).status for claim in controls]
        return "" if any(one.startswith("shown") for one in found) else ", ".join(found) or "no run"

    return Condition("the ResNet learns", unmet)


def _resnet_claims(config: Config, ending: str = "", **options: Any) -> list[Claim]:
    """Figure 2: the ResNet learns G(F) at every width from the paper's."""
    claims = []
    for runs in _series(config, resnet=True):
        first = RESNET_WIDTHS[runs["learner"]]
        wide = runs | {"width": tuple(m for m in config.sweep.width if m >= first)}
        item = f"error of {series_name(**runs)} at its worst m from {first}{ending}"
        options |= {"primary": not ending}
        claims.append(_errors(config, item, "learns at all m", wide, **options))
    return claims


def width_claims(config: Config) -> list[Claim]:
    """Figure 2: the ResNet learns G(F), other nets and kernels do not.

    At the last epoch, and at the evaluated epoch of the least test error, which only searches have.
    """
    claims, looks = [], 1 + config.epochs // config.eval_every
    for ending, column in (("", "test_error"), (", best epoch", "least_error")):
        learn = _resnet_claims(config, ending, column=column, looks=looks if ending else 1)
        claims += learn
        for runs in _series(config, resnet=False):
            if not ending or runs["learner"] in SEARCHED:
                item = f"error at the best m, {series_name(**runs)}{ending}"
                options = {"column": column, "primary": not ending and runs == PRIMARY_KERNEL}
                known = _any_shown(learn)
                claims.append(_errors(config, item, "does not learn", runs, known, **options))
    return claims


def beta_claims(config: Config) -> list[Claim]:
    """Figure 3: G(F) is learned where beta is above alpha, and not below."""
    claims, alpha = [], config.alpha
    statements = (("border", operator.eq), ("learns", operator.gt), ("does not learn", operator.lt))
    for size, series in product(config.sweep.num_train or (config.num_train,), _series(config)):
        learn: list[Claim] = []
        for statement, holds in statements:
            for beta in (b for b in config.sweep.beta if holds(b, alpha)):
                item = f"error at the best m, N = {size:,}, beta = {beta:g}"
                item += " = alpha" if beta == alpha else ""
                runs = series | {"num_train": size, "beta": beta}
                known = (_any_shown(learn),) if statement == "does not learn" else ()
                claims.append(_errors(config, item, statement, runs, *known))
                learn += [claims[-1]] if statement == "learns" else []
    return claims


def net_claims(config: Config) -> list[Claim]:
    """Parts of the ResNet by themselves."""
    claims = _resnet_claims(config)
    for runs in _series(config):
        if runs["net"] in PARTS:
            statement, part = PARTS[runs["net"]]
            item = f"error at the best m, {series_name(**runs)}: {part}"
            claims.append(_errors(config, item, statement, runs))
    return claims


def alpha_claims(config: Config) -> list[Claim]:
    """Theorem 1: the error is of order alpha^4; exponents between neighbours are measured."""
    claims, axes, alphas = [], config.sweep, sorted(config.sweep.alpha)
    listed = ", ".join(f"{a:g}" for a in alphas)
    for size, width in product(axes.num_train or (config.num_train,), axes.width):
        runs = _series(config)[0] | {"num_train": size, "width": width}
        at = f"N = {size:,}, m = {width:,}"
        options = {"column": "error_over_alpha4", **_chosen(config), **runs}
        claims.append(
            Claim(
                item=f"error over alpha^4 at the worst of alpha = {listed}, {at}",
                statistic=decisive(["alpha"], "all below", ALPHA_CONSTANT, **options),
                paper=f"below {ALPHA_CONSTANT:g}: of order alpha^4 (theorem 1)",
                below=ALPHA_CONSTANT,
                primary=True,
            )
        )
        claims += [
            Claim(
                item=f"exponent in alpha of the error from {low:g} to {high:g}, {at}",
                statistic=slope("test_error", "alpha", alpha=(low, high), **runs),
                paper="4 where theorem 1's bound is what limits it",
                digits=2,
            )
            for low, high in pairwise(alphas)
        ]
    return claims


def epoch_claims(config: Config) -> list[Claim]:
    """Section 3: the base signal is learned first, the composite one not by kernels."""
    resnets = _series(config, resnet=True)
    learns = _any_shown([Claim(item="", statistic=_missed(r), below=LEARNED) for r in resnets])
    return [
        Claim(
            item="epochs from half of the base to half of the composite signal, "
            + series_name(**runs),
            statistic=_epochs_between(runs, config.watch_every),
            paper="above 0: base before composite (section 3)",
            above=0.0,
            conditions=(learns,),
            digits=1,
        )
        for runs in resnets
    ] + [
        Claim(
            item=f"share of the composite signal missed at the end, {series_name(**runs)}",
            statistic=_missed(runs),
            paper=f"above {LEARNED:g}: not learned",
            above=LEARNED,
            conditions=(learns,),
        )
        for runs in _series(config, resnet=False)
    ]


def _missed(runs: Mapping[str, str]) -> Statistic:
    """Returns the share of the composite signal that outputs miss; a correlation's error."""
    return lambda every: of_seeds(every.where(**runs), "composite_error", lambda n: 2 / n**0.5)


def _epochs_between(runs: Mapping[str, str], watch_every: int) -> Statistic:
    """Returns the difference of two epochs, each rounded to the next look in all seeds."""
    between = minus(value("composite_epoch", **runs), value("base_epoch", **runs))
    rounding = watch_every / 6**0.5
    return lambda every: (one := between(every))._replace(
        error=rounding if len(one.values) > 1 else 0.0
    )


def sample_claims(config: Config) -> list[Claim]:
    """Numbers of examples: theorems 2 and 3, and the least N of each target.

    The theorems are about linear F, G of one product of all of its outputs, and the uniform cube.
    """
    claims, own = [], tuple(config[name] for name in TASK)
    for d, base, composite, *outputs in sorted(config.sweep.tasks or (own,)):
        k = (outputs or [None])[0] or d // base
        task = dict(zip(TASK, (d, base, composite, k), strict=True))
        if base == 1 and composite == k and most_samples(d, k) > 1:
            claims += _theorem_claims(config, task)
        claims.append(_fewer(config, task, primary=(d, base, composite) == own[:3]))
    return claims


def _up_to(most: float) -> Callable[[float], bool]:
    return lambda number: number <= most


def _without(runs: Runs, n: float) -> str:
    """Names the learners that were not run with some N; "" where all were."""
    groups = runs.finished.groupby(_CELL[:3], dropna=False)["num_train"]
    return ", ".join(f"{net}({of})" for (net, of, _), sizes in groups if n not in set(sizes))


def _fewer(config: Config, task: Mapping[str, int], primary: bool) -> Claim:
    """Claims that kernels are above half of k alpha^2 up to the least N of the ResNet."""
    bound, best = LEARNED * threshold({**task, "alpha": config.alpha}), _chosen(config)
    nets, kernels = task | {"learner": NETWORK_LEARNERS}, task | {"learner": KERNELS}
    learns = Claim(
        item="", statistic=decisive(_CELL, "one below", bound, **best, **nets), below=bound
    )

    def least_n(runs: Runs, **options: Any) -> float:
        cells = by_cell(runs, _CELL, **options).items()
        found = (n for (*_, n), one in cells if ends(one)[1] < math.log(bound))
        return min(found, default=math.inf)

    def of_nets(runs: Runs) -> float:
        return least_n(runs.where(**nets), best=True, **best)

    def of_kernels(runs: Runs) -> Sample:
        most = _up_to(of_nets(runs))
        return decisive(_CELL, "all above", bound, num_train=most, **kernels)(runs)

    def in_words(runs: Runs) -> str:
        words = f"{of_nets(runs):,} / {least_n(runs.where(**kernels)):,}".replace("inf", "at no N")
        return f"{words}; kernels have {math.exp(of_kernels(runs).values.mean()):.3g}"

    def lacking(runs: Runs) -> str:
        return _without(runs.where(**kernels), of_nets(runs))

    return Claim(
        item="least N with less than half of k alpha^2 left, ResNet / kernels, "
        "d = {d:g}, degrees {base_degree:g} x {composite_degree:g}".format(**task),
        statistic=of_kernels,
        paper=f"kernels' error above {bound:g} at the N of the ResNet (theorems 1 and 2)",
        above=bound,
        conditions=(
            shown(learns, "the ResNet gets there"),
            Condition("all kernels were run with that N", lacking),
        ),
        primary=primary,
        ours=in_words,
    )


def _theorem_claims(config: Config, task: Mapping[str, int]) -> list[Claim]:
    """Returns the claims of theorems 2 and 3 and of corollary 7.1, about bounds on risks.

    They are about all N and numbers of features up to one, which is the hardest. Theorem 3 is about
    all weights: with fewer examples than features, learned features depend on the examples.
    """
    most, risk = most_samples(task["d"], task["outputs"]), RISK * config.alpha**2
    where, bound = f"linear F, d = {task['d']:g}, degree {task['outputs']:g}", "alpha^2 / 16"
    fixed = tuple(name for name in KERNELS if name != _FEATURES)
    nets = {"learner": NETWORK_LEARNERS, "num_train": _up_to(most), **task, **_chosen(config)}
    kernels = {"learner": fixed, "num_train": _up_to(most), **task}
    features = {"learner": _FEATURES, "width": _up_to(most), **task}

    def fewer(runs: Runs) -> str:
        rows = runs.where(**features).finished
        return "" if ((rows["width"] == most) & (rows["num_train"] >= most)).any() else "fewer"

    network = Claim(
        item=f"least error of the ResNet, {where}",
        statistic=decisive(_CELL, "one below", risk, **nets),
        paper=f"below {bound} = {risk:.2g} with N to {most:,} (corollary 7.1)",
        below=risk,
    )
    to_most = Condition(
        f"all have N = {most:,}", lambda runs: _without(runs.where(**kernels), most)
    )
    enough = Condition(f"{most:,} features were run, with as many examples", fewer)
    return [
        Claim(
            item=f"least error of {learner}, {where}",
            statistic=decisive(_CELL, "all above", risk, **own),
            paper=f"above {bound} = {risk:.2g} with {limit}",
            above=risk,
            conditions=(shown(network, "the ResNet is below"), ran),
        )
        for learner, own, limit, ran in (
            ("a kernel", kernels, f"N to {most:,} (theorem 2)", to_most),
            ("regression on features", features, f"{most:,} features (theorem 3)", enough),
        )
    ] + [network]


CLAIMS = {
    "width": width_claims,
    "beta": beta_claims,
    "alpha": alpha_claims,
    "nets": net_claims,
    "samples": sample_claims,
    "epochs": epoch_claims,
}
