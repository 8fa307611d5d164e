"""What the paper claims of hierarchical targets, beside what came out."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import ml_collections
import pandas as pd

from lsa_jax.experiments.resnet.errors import (
    At,
    as_measured,
    candidates,
    cells,
    errors_at,
)
from lsa_jax.experiments.resnet.hierarchical.settings import SEARCHED
from lsa_jax.experiments.resnet.numbers import HIERARCHY_CLAIMS
from lsa_jax.reporting.doubts import doubted
from lsa_jax.reporting.report import Claim

# From which width on the paper's ResNet learns (figure 2), by what of it is trained.
RESNET_WIDTHS = {"all": 50, "hidden": 200}

# What counts as learned: an error below this share of k alpha^2, or half of a signal. The paper's
# own threshold is k alpha^2, below which any of G is known: what lies between is undecided.
LEARNED = 0.5
# A learner whose error is above so many times that of the answer 0 diverged: answers as large as
# the targets that have nothing to do with them have twice that error.
DIVERGED = 2.0

# A net and a learner.
Series = tuple[str, str]
_NO_CONTRAST = "nothing that was run beside it is shown not to learn"


def threshold(row: Mapping | ml_collections.ConfigDict) -> float:
    """Returns k alpha^2, the error of an answer that has F right and nothing of G(F)."""
    return (row["outputs"] or row["d"] // row["base_degree"]) * row["alpha"] ** 2


def answer_zero(row: Mapping | ml_collections.ConfigDict) -> float:
    """Returns the error of the answer 0: the targets' mean square, k (alpha^2 + beta^2)."""
    return threshold(row) * (1 + (row["beta"] / row["alpha"]) ** 2)


def words_of(name: str, words: Mapping[str, object]) -> list[str]:
    """Returns a claim's item and what the paper says of it."""
    return [text.format(**words) for text in HIERARCHY_CLAIMS[name]]


def series_name(net: str, learner: str) -> str:
    """Returns a net and a learner as the paper's legends have them."""
    return learner if net == "none" else f"{net}({learner})"


def of_series(runs: pd.DataFrame, net: str, learner: str) -> pd.DataFrame:
    """Returns the rows of a net and a learner."""
    return runs[(runs["net"] == net) & (runs["learner"] == learner)]


def planned(config: ml_collections.ConfigDict) -> dict[Series, tuple[Sequence, Sequence[int]]]:
    """Returns the widths and the seeds that a sweep asks for, by series; None of a limit."""
    axes = config.sweep
    parts = (
        (axes.series, axes.width, axes.seed),
        (axes.baselines, axes.width, axes.baseline_seed),
        (axes.exact, axes.exact_width, axes.baseline_seed),
        (axes.limits, (None,), axes.baseline_seed),
    )
    return {tuple(one): (widths, seeds) for of, widths, seeds in parts for one in of}


def _learns(
    at: At,
    name: str,
    config: ml_collections.ConfigDict,
    rows: pd.DataFrame,
    seeds: Sequence[int],
    widths: Sequence[int],
    **words: object,
) -> Claim:
    """Claims that less than half of k alpha^2 is left, at every or at some of the widths.

    The paper's threshold is k alpha^2: nothing is refuted below it.
    """
    bound = threshold(config)
    claim = errors_at(
        at,
        words_of(name, words | {"bound": bound, "learned": LEARNED * bound}),
        cells(rows, "width", widths, seeds),
        num_test=config.num_test,
        below=LEARNED * bound,
        refuted_from=bound,
        chosen_of=candidates(rows),
    )
    if at == "some" and len(widths) > 1 and len(seeds) < 2:
        claim = doubted(claim, [f"one seed does not tell the best of {len(widths)} widths"])
    return claim


def _does_not(
    name: str,
    config: ml_collections.ConfigDict,
    rows: pd.DataFrame,
    seeds: Sequence[int],
    widths: Sequence[int | None],
    measured: bool = False,
    **words: object,
) -> Claim:
    """Claims that more than k alpha^2 is left at every width, or measures what is."""
    bound = threshold(config)
    names = words_of(name, words | {"bound": bound})
    options = {"num_test": config.num_test, "above": 0.0 if measured else bound}
    claim = errors_at("every", names, cells(rows, "width", widths, seeds), **options)
    return as_measured(claim) if measured else claim


def _resnet_claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> dict[Series, Claim]:
    """Returns what is claimed of the ResNet, by what of it is trained."""
    claims = {}
    for (net, learner), (widths, seeds) in planned(config).items():
        if net == "3resnet" and learner in RESNET_WIDTHS:
            wide = [width for width in widths if width >= RESNET_WIDTHS[learner]]
            rows = of_series(runs, net, learner)
            rows = rows[rows["width"].isin(wide)]
            claim = _learns("every", f"resnet_{learner}", config, rows, seeds, wide)
            claims[net, learner] = claim
    return claims


def _other_claim(
    config: ml_collections.ConfigDict, runs: pd.DataFrame, series: Series, control: str
) -> Claim:
    """Claims that a learner does not learn G(F), which says something if it has learned F."""
    widths, seeds = planned(config)[series]
    rows, name = of_series(runs, *series), series_name(*series)
    claim = _does_not("others", config, rows, seeds, widths, series=name)
    if claim.status == "shown" and claim.high > LEARNED * answer_zero(config):
        control = control or "it does not learn the base signal either"
    return doubted(claim, [control])


def _no_control(claims: Iterable[Claim]) -> str:
    """Returns why nothing can be said of those who do not learn; empty if one is shown to."""
    shown = any(claim.status == "shown" for claim in claims)
    return "" if shown else "the ResNet is not shown to learn"


def _contrasted(claim: Claim, others: Iterable[Claim]) -> Claim:
    """Takes what learns as undecided where nothing that was run is shown not to: it tells nothing.

    The two are further apart than any difference that is a pair's: half of k alpha^2 is surely not
    left of one, and k alpha^2 surely is of the other.
    """
    shown = any(other.status == "shown" for other in others)
    return claim if shown else doubted(claim, [_NO_CONTRAST])


def width_claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> list[Claim]:
    """Returns what figure 2 shows: the ResNet learns, nothing else does.

    Args:
        config: of the sweep.
        runs: its results, of which those that failed have no error.
    """
    resnet = _resnet_claims(config, runs)
    control = _no_control(resnet.values())
    others = {
        series: _other_claim(config, runs, series, control)
        for series in planned(config)
        if series not in resnet
    }
    learn = {series: _contrasted(claim, others.values()) for series, claim in resnet.items()}
    return [(learn | others)[series] for series in planned(config)]


def early_claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> list[Claim]:
    """Returns the same of searches that choose the epoch as well, by its test error."""
    tried = 1 + config.epochs // config.eval_every
    early = at_best_epoch(runs)
    early = early.assign(candidates=early.reindex(columns=["candidates"]).astype(float) * tried)
    claims = zip(planned(config), width_claims(config, early), strict=True)
    return [
        claim._replace(item=f"{claim.item}, best epoch")
        for (_, learner), claim in claims
        if learner in SEARCHED
    ]


def at_best_epoch(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns results with the least test error of all epochs in the place of the last one's."""
    return runs.assign(test_error=runs["least_error"])


def beta_claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> list[Claim]:
    """Returns what figure 3 shows: the composite signal is learned where beta is above alpha.

    At beta = alpha the paper's "about" leaves it open: measured. Arguments as in `width_claims`.
    """
    nets = of_series(runs, *config.sweep.series[0])  # the ResNet
    sizes = config.sweep.num_train or (config.num_train,)
    return [
        c for size in sizes for c in _beta_claims(config, nets[nets["num_train"] == size], size)
    ]


def _beta_claims(
    config: ml_collections.ConfigDict, nets: pd.DataFrame, num_train: int
) -> list[Claim]:
    """Returns the same of one N."""
    alpha, axes, found = config.alpha, config.sweep, {}

    def of(claims: Callable, name: str, beta: float, **more: bool) -> Claim:
        rows = nets[nets["beta"] == beta]
        words = {"num_train": num_train, "beta": beta, **more}
        return claims(name, config, rows, axes.seed, axes.width, **words)

    def learns(*args, **words) -> Claim:
        return _learns("some", *args, **words)

    above = {beta: of(learns, "beta_above", beta) for beta in axes.beta if beta > alpha}
    control = _no_control(above.values())
    for beta in axes.beta:
        if beta == alpha:
            found[beta] = of(_does_not, "beta_equal", beta, measured=True)
        elif beta < alpha:
            claim = of(_does_not, "beta_below", beta)
            zero = threshold(config) * (1 + (beta / alpha) ** 2)
            diverged = claim.status == "shown" and claim.high > DIVERGED * zero
            why = control or ("it is far worse than the answer 0" if diverged else "")
            found[beta] = doubted(claim, [why])
    below = [claim for beta, claim in found.items() if beta < alpha]
    found |= {beta: _contrasted(claim, below) for beta, claim in above.items()}
    return [found[beta] for beta in axes.beta]


def net_claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> list[Claim]:
    """Returns what the skip and the bottleneck do, each by itself.

    Arguments as in `width_claims`.
    """
    resnet = _resnet_claims(config, runs)
    found, others, control = dict(resnet), {}, _no_control(resnet.values())
    for series, (widths, seeds) in planned(config).items():
        rows, words = of_series(runs, *series), {"series": series_name(*series)}
        if series[0] == "3resnet_full":
            found[series] = _learns("some", "skip_alone", config, rows, seeds, widths, **words)
        elif series[0] == "3layer_bottleneck":
            args = (config, rows, seeds, widths)
            found[series] = _does_not("bottleneck_alone", *args, measured=True, **words)
        elif series not in resnet:
            others[series] = _other_claim(config, runs, series, control)
    found = {series: _contrasted(claim, others.values()) for series, claim in found.items()}
    return [(found | others)[series] for series in planned(config)]
