"""What the paper claims of hierarchical targets, beside what came out."""

from collections.abc import Callable, Iterable

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.settings import SEARCHED
from lsa_jax.experiments.resnet.numbers import HIERARCHY_CLAIMS
from lsa_jax.reporting.claims import compare, every, spread
from lsa_jax.reporting.report import Claim

# From which width on the paper's ResNet learns, by what of it is trained.
RESNET_WIDTHS = {"all": 50, "hidden": 200}

# What counts as learned: an error below this share of k alpha^2, or half of a signal.
LEARNED = 0.5
# A learner whose error is above so many times that of the answer 0 diverged.
DIVERGED = 2.0


def series_name(net: str, learner: str) -> str:
    """Returns a net and a learner as the paper's legends have them."""
    return learner if net == "none" else f"{net}({learner})"


def threshold(row: pd.Series | ml_collections.ConfigDict) -> float:
    """Returns k alpha^2, the error of an answer that has F right and nothing of G(F)."""
    return (row["outputs"] or row["d"] // row["base_degree"]) * row["alpha"] ** 2


def answer_zero(row: pd.Series | ml_collections.ConfigDict) -> float:
    """Returns the error of the answer 0: the targets' mean square, k (alpha^2 + beta^2)."""
    return threshold(row) * (1 + (row["beta"] / row["alpha"]) ** 2)


def words_of(name: str, words: dict[str, object]) -> list[str]:
    """Returns a claim's item and what the paper says of it."""
    return [text.format(**words) for text in HIERARCHY_CLAIMS[name]]


def logarithms(errors: pd.Series) -> pd.Series:
    """Returns logarithms of errors, of which none is taken to be below 1e-30."""
    return np.log(errors.astype(float).clip(lower=1e-30))


def examples_error(num_test: int) -> float:
    """Returns the standard error of an error's logarithm that the test examples make.

    The mean square of n normal numbers has a relative error of sqrt(2 / n): an estimate.
    """
    return float(np.sqrt(2 / num_test))


def errors_claim(
    name: str,
    errors: pd.Series,
    *,
    num_test: int,
    unless: str = "",
    above: float = 0.0,
    below: float = np.inf,
    **words: object,
) -> Claim:
    """Compares errors of seeds with bounds, on a logarithmic scale; ours is their median."""
    item, paper = words_of(name, words)
    with np.errstate(divide="ignore"):
        limits = {"above": float(np.log(above)), "below": float(np.log(below))}
    error = examples_error(num_test)
    claim = compare(item, paper, logarithms(errors), **limits, examples_error=error, unless=unless)
    if claim.status == "not run":
        return claim
    ends = [None if end is None else float(np.exp(end)) for end in (claim.low, claim.high)]
    return claim._replace(
        ours=float(errors.median()), spread=spread(errors), low=ends[0], high=ends[1]
    )


def as_measured(claim: Claim) -> Claim:
    """Returns a claim of which the paper says nothing that could be shown."""
    return claim if claim.status == "not run" else claim._replace(status="measured", note="")


def _at_extreme(rows: pd.DataFrame, extreme: Callable[[pd.Series], float]) -> pd.Series:
    """Returns the errors of all seeds at the width where their median is extreme."""
    medians = rows.groupby("width")["test_error"].median().dropna()
    if medians.empty:
        return pd.Series(dtype=float)
    return rows.loc[rows["width"] == extreme(medians), "test_error"]


def _learns(
    name: str,
    config: ml_collections.ConfigDict,
    rows: pd.DataFrame,
    extreme: Callable[[pd.Series], float],
    **words: object,
) -> Claim:
    """Claims that less than half of k alpha^2 is left, at the best or the worst of the widths."""
    bound = threshold(config)
    words |= {"bound": bound, "learned": LEARNED * bound}
    options = {"num_test": config.num_test, "below": LEARNED * bound}
    return errors_claim(name, _at_extreme(rows, extreme), **options, **words)


def _does_not(
    name: str,
    config: ml_collections.ConfigDict,
    rows: pd.DataFrame,
    control: str,
    **words: object,
) -> Claim:
    """Claims that more than k alpha^2 is left at all widths, of a learner that learns F.

    Args:
        name: of the claim.
        config: of the sweep.
        rows: of the learner.
        control: why it says nothing of G(F) that this learner does not learn it; empty if nothing.
        **words: of the claim.
    """
    bound, errors = threshold(config), _at_extreme(rows, pd.Series.idxmin)
    options = {"num_test": config.num_test, "above": bound, "unless": control}
    return errors_claim(name, errors, **options, bound=bound, **words)


def _resnet_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> dict[str, Claim]:
    """Returns what is claimed of the ResNet, by what of it is trained."""
    claims = {}
    for net, learner in _wanted(config):
        if net == "3resnet" and learner in RESNET_WIDTHS:
            rows = of_series(fine, net, learner)
            rows = rows[rows["width"] >= RESNET_WIDTHS[learner]]
            claims[learner] = _learns(f"resnet_{learner}", config, rows, pd.Series.idxmax)
    return claims


def _no_control(claims: Iterable[Claim]) -> str:
    """Returns why nothing can be said of those who do not learn; empty if one is shown to."""
    shown = any(claim.status == "shown" for claim in claims)
    return "" if shown else "the ResNet is not shown to learn"


def _wanted(config: ml_collections.ConfigDict) -> list[tuple[str, str]]:
    """Returns all (net, learner) of a sweep."""
    axes = config.sweep
    return [*axes.series, *axes.baselines, *axes.exact, *axes.limits]


def of_series(fine: pd.DataFrame, net: str, learner: str) -> pd.DataFrame:
    """Returns the rows of a net and a learner."""
    return fine[(fine["net"] == net) & (fine["learner"] == learner)]


def _parted(learns: Iterable[Claim], does_not: Iterable[Claim]) -> Callable[[Claim], Claim]:
    """Returns what to make of a claim: none speaks for the paper where all others learn as well."""
    learns, statuses = list(learns), {claim.status for claim in does_not}
    tied = statuses - {"not run"} == {"not shown"}

    def judge(claim: Claim) -> Claim:
        if not tied or claim not in learns or claim.status != "shown":
            return claim
        return claim._replace(status="undecided", note="everything that was tried learns")

    return judge


def width_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what figure 2 shows: the ResNet learns, nothing else does."""
    resnet = _resnet_claims(config, fine)
    control = _no_control(resnet.values())
    claims = [
        resnet[learner]
        if net == "3resnet" and learner in resnet
        else _other_claim(config, fine, net, learner, control)
        for net, learner in _wanted(config)
    ]
    judge = _parted(resnet.values(), (c for c in claims if c not in resnet.values()))
    return [judge(claim) for claim in claims]


def early_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns the same of searches that choose the epoch as well, by its test error."""
    claims = zip(_wanted(config), width_claims(config, at_best_epoch(fine)), strict=True)
    return [
        claim._replace(item=f"{claim.item}, best epoch")
        for (_, learner), claim in claims
        if learner in SEARCHED
    ]


def at_best_epoch(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns results with the least test error of all epochs in the place of the last one's."""
    return fine.assign(test_error=fine["least_error"])


def _other_claim(
    config: ml_collections.ConfigDict, fine: pd.DataFrame, net: str, learner: str, control: str
) -> Claim:
    """Claims that a learner does not learn G(F), which says something if it has learned F."""
    rows = of_series(fine, net, learner)
    rows = rows.assign(width=rows["width"].fillna(0))  # a limit has no width
    if _at_extreme(rows, pd.Series.idxmin).median() > LEARNED * answer_zero(config):
        control = control or "it does not learn the base signal either"
    return _does_not("others", config, rows, control, series=series_name(net, learner))


def beta_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what figure 3 shows: the composite signal is learned where beta is above alpha.

    At beta = alpha the paper's "about" leaves it open: measured.
    """
    nets = of_series(fine, *config.sweep.series[0])  # the ResNet
    sizes = config.sweep.num_train or (config.num_train,)
    return [
        c for size in sizes for c in _beta_claims(config, nets[nets["num_train"] == size], size)
    ]


def _beta_claims(
    config: ml_collections.ConfigDict, nets: pd.DataFrame, num_train: int
) -> list[Claim]:
    """Returns the same of one N."""
    words = {"num_train": num_train}
    above = {
        beta: _learns(
            "beta_above", config, nets[nets["beta"] == beta], pd.Series.idxmin, beta=beta, **words
        )
        for beta in config.sweep.beta
        if beta > config.alpha
    }
    control, below, equal = _no_control(above.values()), {}, {}
    for beta in config.sweep.beta:
        rows = nets[nets["beta"] == beta]
        if beta == config.alpha:
            claim = _does_not("beta_equal", config, rows, "", beta=beta, **words)
            equal[beta] = as_measured(claim)
        elif beta < config.alpha:
            zero, unless = threshold(config) * (1 + (beta / config.alpha) ** 2), control
            if _at_extreme(rows, pd.Series.idxmin).median() > DIVERGED * zero:
                unless = control or "it is far worse than the answer 0"
            below[beta] = _does_not("beta_below", config, rows, unless, beta=beta, **words)
    judge, found = _parted(above.values(), below.values()), above | below | equal
    return [judge(found[beta]) for beta in config.sweep.beta if beta in found]


def net_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what the skip and the bottleneck do, each by itself."""
    resnet = _resnet_claims(config, fine)
    claims, others, control = [], [], _no_control(resnet.values())
    for net, learner in _wanted(config):
        rows, words = of_series(fine, net, learner), {"series": series_name(net, learner)}
        if net == "3resnet" and learner in resnet:
            claims.append(resnet[learner])
        elif net == "3resnet_full":
            claims.append(_learns("skip_alone", config, rows, pd.Series.idxmin, **words))
        elif net == "3layer_bottleneck":
            claims.append(as_measured(_does_not("bottleneck_alone", config, rows, "", **words)))
        else:
            others.append(_other_claim(config, fine, net, learner, control))
            claims.append(others[-1])
    judge = _parted((c for c in claims if c not in others), others)
    return [judge(claim) for claim in claims]


def _base_first(rows: pd.DataFrame, series: str) -> Claim:
    """Claims that half of the base signal is learned epochs before half of the composite one."""
    item, paper = words_of("base_first", {"series": series})
    epochs = rows.reindex(columns=["base_epoch", "composite_epoch"]).astype(float)
    ours = " / ".join(f"{v:g}" for v in epochs.median())
    if epochs.isna().any(axis=None):
        return every(item, paper, [False], ours)
    later = epochs["composite_epoch"] - epochs["base_epoch"]
    claim = compare(item, paper, later, above=0.0)
    return claim if claim.status == "not run" else claim._replace(ours=ours)


def epoch_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns when the signals are learned: base before composite, by a kernel never.

    A kernel that does not learn the base signal either, or where no network learns the composite
    one, says nothing.
    """
    is_network = fine["learner"].isin(RESNET_WIDTHS) & (fine["net"] == "3resnet")
    reached = fine.loc[is_network].reindex(columns=["composite_epoch"]).notna().all(axis=None)
    control = "" if is_network.any() and reached else "the ResNet is not shown to learn"
    claims = []
    for net, learner in _wanted(config):
        rows, series = of_series(fine, net, learner), series_name(net, learner)
        if net == "3resnet" and learner in RESNET_WIDTHS:
            claims.append(_base_first(rows, series))
            continue
        missed = rows.reindex(columns=["base_error", "composite_error"]).astype(float)
        unless = control
        if not (missed["base_error"] < LEARNED).all():
            unless = control or "it does not learn the base signal either"
        names = words_of("never", {"series": series})
        # A share of a signal, in a correlation with it over the test examples.
        options = {"above": LEARNED, "examples_error": 2 / np.sqrt(config.num_test)}
        claims.append(compare(*names, missed["composite_error"], unless=unless, **options))
    return claims
