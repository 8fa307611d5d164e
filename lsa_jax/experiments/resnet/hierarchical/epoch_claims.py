"""When the signals are learned, beside what the paper says of it."""

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.errors import gaps, no_sample
from lsa_jax.experiments.resnet.hierarchical.claims import (
    LEARNED,
    RESNET_WIDTHS,
    of_series,
    planned,
    series_name,
    words_of,
)
from lsa_jax.reporting.claims import compare, every
from lsa_jax.reporting.doubts import doubted
from lsa_jax.reporting.intervals import REACH
from lsa_jax.reporting.report import Claim


def _base_first(config: ml_collections.ConfigDict, rows: pd.DataFrame, series: str) -> Claim:
    """Claims that half of the base signal is learned epochs before half of the composite one.

    The two are of the same run, which is looked at once in a while: differences of epochs are off
    by the rounding of both, and so are those of one seed, which decides nothing. The interval is of
    their mean, which stands beside the medians of both: it is not the medians' difference.
    """
    names = words_of("base_first", {"series": series})
    failed = gaps([rows["test_error"]])
    epochs = rows.loc[np.isfinite(rows["test_error"].astype(float))]
    epochs = epochs.reindex(columns=["base_epoch", "composite_epoch"]).astype(float)
    ours = " / ".join(f"{v:g}" for v in epochs.median())
    if epochs.isna().any(axis=None):
        return every(*names, [False], ours)
    later = epochs["composite_epoch"] - epochs["base_epoch"]
    rounded = config.watch_every / np.sqrt(6) if len(later) > 1 else 0.0
    claim = compare(*names, later, above=0.0, examples_error=rounded, unless=failed)
    if claim.status == "not run":
        return claim._replace(note=failed)
    ours += f"; {later.mean():.3g} later on average"
    return doubted(claim, refuted=[no_sample(later, config.num_test)])._replace(ours=ours)


def epoch_claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> list[Claim]:
    """Returns when the signals are learned: base before composite, by a kernel never.

    A kernel that does not learn the base signal either, or where no network learns the composite
    one, says nothing. Arguments as in `width_claims`.
    """
    # A share of a signal, in a correlation with it over the test examples.
    error = float(2 / np.sqrt(config.num_test))
    is_network = runs["learner"].isin(RESNET_WIDTHS) & (runs["net"] == "3resnet")
    left = runs.loc[is_network].reindex(columns=["composite_error"]).astype(float)
    reached = len(left) and (left + REACH * error < LEARNED).all(axis=None)
    control = "" if reached else "the ResNet is not shown to learn"
    claims = []
    for (net, learner), (_, seeds) in planned(config).items():
        rows, series = of_series(runs, net, learner), series_name(net, learner)
        rows = rows.groupby("seed").first().reindex(list(seeds))
        if net == "3resnet" and learner in RESNET_WIDTHS:
            claims.append(_base_first(config, rows, series))
            continue
        missed = rows.reindex(columns=["base_error", "composite_error"]).astype(float)
        missed = missed.where(np.isfinite(rows["test_error"].astype(float)), np.nan)
        unless = gaps([missed["composite_error"]]) or control
        if not (missed["base_error"] + REACH * error < LEARNED).all():
            unless = unless or "it does not learn the base signal either"
        names = words_of("never", {"series": series})
        options = {"above": LEARNED, "examples_error": error, "unless": unless}
        claim = compare(*names, missed["composite_error"], **options)
        why = no_sample(missed["composite_error"].dropna(), config.num_test)
        claims.append(doubted(claim, refuted=[why]))
    return claims
