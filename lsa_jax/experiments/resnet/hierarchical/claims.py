"""Claims about hierarchical targets beta F + alpha G(F), stated before any run.

Source: Allen-Zhu and Li (NeurIPS 2019): sections 3 and 8.1, figures 2 and 3, theorem 1. Errors are
compared with k alpha^2, the error of an answer that has all of F and nothing of G(F).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product

import ml_collections

from lsa_jax.experiments.resnet.hierarchical.settings import SEARCHED
from lsa_jax.experiments.resnet.statistics import decisive, of_seeds
from lsa_jax.reporting.claims import Claim, Condition, decide
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import minus, slope, value

# Half of a signal is learned: G(F) with less than this share of k alpha^2 left.
LEARNED = 0.5
# Width from which the paper's ResNet learns, by its trained layers (figure 2).
RESNET_WIDTHS = {"all": 50, "hidden": 200}
# Least constant of theorem 1's bound on the error, constant * alpha^4.
ALPHA_CONSTANT = 1.0
# Kernel whose claim is primary: that of the ResNet, trained by SGD as in the paper.
PRIMARY_KERNEL = {"net": "3resnet", "learner": "ntk"}

Config = ml_collections.ConfigDict


def threshold(row: Mapping | Config) -> float:
    """Returns k alpha^2."""
    return (row["outputs"] or row["d"] // row["base_degree"]) * row["alpha"] ** 2


def candidates(config: Config) -> int:
    """Returns the number of candidates of a network's search."""
    return len(config.search.learning_rates) * len(config.search.weight_decays)


def series_name(net: str, learner: str) -> str:
    """Returns a net and a learner as in the paper's legends."""
    return learner if net == "none" else f"{net}({learner})"


def series(config: Config) -> list[dict[str, str]]:
    """Returns the nets and learners of a sweep."""
    axes = config.sweep
    every = (*axes.series, *axes.baselines, *axes.exact, *axes.limits)
    return [{"net": net, "learner": learner} for net, learner in every]


def _is_resnet(net: str, learner: str) -> bool:
    return net == "3resnet" and learner in RESNET_WIDTHS


def _learns(config: Config, item: str, every: bool = False, looks: int = 1, **runs) -> Claim:
    """Claims that half of G(F) is learned at every width, or at the best one."""
    bound, kind = LEARNED * threshold(config), "all below" if every else "one below"
    return Claim(
        item=item,
        statistic=decisive(["width"], kind, bound, chosen=candidates(config) * looks, **runs),
        paper=f"learns: below k alpha^2 / 2 = {bound:g}",
        below=bound,
    )


def _does_not(config: Config, item: str, **runs) -> Claim:
    """Claims that nothing of G(F) is learned at any width."""
    return Claim(
        item=item,
        statistic=decisive(["width"], "all above", threshold(config), **runs),
        paper=f"does not learn: above k alpha^2 = {threshold(config):g}",
        above=threshold(config),
    )


def _measured(claim: Claim, paper: str) -> Claim:
    return Claim(item=claim.item, statistic=claim.statistic, paper=paper)


def _where(claims: Sequence[Claim], controls: Sequence[Claim]) -> list[Claim]:
    """Returns claims with the condition that a ResNet learns, as one of the controls shows."""

    def unmet(runs: Runs) -> str:
        found = [decide(claim, runs).status for claim in controls]
        return "" if any(one.startswith("shown") for one in found) else ", ".join(found) or "no run"

    return [replace(one, conditions=(Condition("the ResNet learns", unmet),)) for one in claims]


def _width_claims(config: Config, ending: str = "", looks: int = 1, **column: str) -> list[Claim]:
    """Figure 2: the ResNet learns G(F), other nets and kernels do not."""
    learn, others = [], []
    for runs in series(config):
        name, own = series_name(**runs), runs | column
        if _is_resnet(**runs):
            first = RESNET_WIDTHS[runs["learner"]]
            own["width"] = tuple(m for m in config.sweep.width if m >= first)
            item = f"error of {name} at its worst m from {first}{ending}"
            claim = _learns(config, item, every=True, looks=looks, **own)
            learn.append(replace(claim, primary=not ending))
        elif not column or runs["learner"] in SEARCHED:
            claim = _does_not(config, f"error at the best m, {name}{ending}", **own)
            others.append(replace(claim, primary=own == PRIMARY_KERNEL))
    return learn + _where(others, learn)


def width_claims(config: Config) -> list[Claim]:
    """Figure 2, at the last epoch, and at the evaluated one of the least test error."""
    looks = 1 + config.epochs // config.eval_every
    best = _width_claims(config, ", best epoch", looks, column="least_error")
    return _width_claims(config) + best


def beta_claims(config: Config) -> list[Claim]:
    """Figure 3: G(F) is learned where beta is above alpha, and not below."""
    claims, axes = [], config.sweep
    for size, own in product(axes.num_train or (config.num_train,), series(config)):
        above, below = [], []
        for beta in axes.beta:
            runs = own | {"num_train": size, "beta": beta}
            item = f"error at the best m, N = {size:,}, beta = {beta:g}"
            if beta > config.alpha:
                above.append(_learns(config, item, **runs))
            elif beta < config.alpha:
                below.append(_does_not(config, item, **runs))
            else:
                equal = _does_not(config, f"{item} = alpha", **runs)
                claims.append(_measured(equal, "about where learning ends"))
        claims += above + _where(below, above)
    return claims


def net_claims(config: Config) -> list[Claim]:
    """Parts of the ResNet, each by itself: the skip (equation 2.1 has one), the bottleneck."""
    claims = [one for one in _width_claims(config) if "worst" in one.item]
    for runs in series(config):
        item = f"error at the best m, {series_name(**runs)}"
        if runs["net"] == "3resnet_full":
            claims.append(_learns(config, f"{item}: a skip, no bottleneck", **runs))
        elif runs["net"] == "3layer_bottleneck":
            alone = _does_not(config, f"{item}: a bottleneck, no skip", **runs)
            claims.append(_measured(alone, "not tried"))
    return claims


def alpha_claims(config: Config) -> list[Claim]:
    """Theorem 1: the error is of order alpha^4; exponents between neighbours are measured."""
    claims, axes, alphas = [], config.sweep, sorted(config.sweep.alpha)
    for size, width in product(axes.num_train or (config.num_train,), axes.width):
        runs = series(config)[0] | {"num_train": size, "width": width}
        at, listed = f"N = {size:,}, m = {width:,}", ", ".join(f"{a:g}" for a in alphas)
        over = {"column": "error_over_alpha4", "chosen": candidates(config)}
        claims.append(
            Claim(
                item=f"error over alpha^4 at the worst of alpha = {listed}, {at}",
                statistic=decisive(["alpha"], "all below", ALPHA_CONSTANT, **over, **runs),
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
    """Section 3: the base signal is learned before the composite one, which kernels never learn."""
    learn, later, never = [], [], []
    # Differences of epochs are off by the rounding of both to the next look, in all seeds.
    rounding = config.watch_every / 6**0.5
    for runs in series(config):
        name, missed = series_name(**runs), "share of the composite signal missed at the end"
        share = Claim(item=f"{missed}, {name}", statistic=_composite_missed(runs))
        if _is_resnet(**runs):
            learn.append(replace(share, below=LEARNED))
            between = minus(value("composite_epoch", **runs), value("base_epoch", **runs))
            later.append(
                Claim(
                    item=f"epochs from half of the base to half of the composite signal, {name}",
                    statistic=_with_error(between, rounding),
                    paper="above 0: base before composite (section 3)",
                    above=0.0,
                    digits=1,
                )
            )
        else:
            never.append(replace(share, paper=f"above {LEARNED:g}: not learned", above=LEARNED))
    return _where(later + never, learn)


def _composite_missed(runs: Mapping[str, str]) -> Statistic:
    """Returns the share of the composite signal that outputs miss, known by a correlation."""
    return lambda every: of_seeds(every.where(**runs), "composite_error", lambda n: 2 / n**0.5)


def _with_error(statistic: Statistic, error: float) -> Statistic:
    """Returns a statistic with an error that several seeds have in common."""
    return lambda every: (one := statistic(every))._replace(
        error=error if len(one.values) > 1 else 0.0
    )
