"""From how many examples on targets are learned, beside what the paper proves of it."""

import math
from typing import Any, NamedTuple

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.claims import (
    LEARNED,
    answer_zero,
    errors_claim,
    threshold,
    words_of,
)
from lsa_jax.experiments.resnet.hierarchical.settings import NETWORK_LEARNERS
from lsa_jax.reporting.claims import every
from lsa_jax.reporting.report import Claim

TASK = ["d", "base_degree", "composite_degree", "outputs"]
_SERIES = ["net", "learner", "width"]


class _Sizes(NamedTuple):
    """From how many examples on series are below a bound.

    Attributes:
        first: the least N at which one of them is; infinite where none is.
        lower: none is with fewer examples, as far as was run; infinite without series.
    """

    first: float
    lower: float


def _sizes(rows: pd.DataFrame, bound: float, of_seeds: str) -> _Sizes:
    """Compares test errors of each series, at each N, with a bound: their "median" or "max"."""
    first, lower = [np.inf], [np.inf]
    for _, series in rows.groupby(_SERIES, dropna=False):
        errors = series.groupby("num_train")["test_error"].agg(of_seeds)
        reached = errors.index[errors < bound]
        first.append(float(min(reached, default=np.inf)))
        lower.append(float(min(reached, default=errors.index.max())))
    return _Sizes(min(first), min(lower))


def _size(sizes: _Sizes) -> str:
    return f"{sizes.first:g}" if np.isfinite(sizes.first) else f"not below N = {sizes.lower:,g}"


def sample_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns from how many examples on G(F) is learned, and what theorem 2 says of its targets.

    Where no kernel gets there, all that is known is that it takes more than the largest N that was
    run. That kernels need many says nothing where the ResNet does not get there either; it does
    where all of its seeds do.
    """
    claims = []
    for (d, base_degree, composite_degree, outputs), rows in fine.groupby(TASK):
        bound = LEARNED * threshold(rows.iloc[0])
        is_network = rows["learner"].isin(NETWORK_LEARNERS)
        kernels = _sizes(rows[~is_network], bound, "median")
        nets = _sizes(rows[is_network], bound, "max")
        words = {"d": d, "base": base_degree, "composite": composite_degree}
        in_theorem = base_degree == 1 and composite_degree == outputs
        if in_theorem and most_samples(d, outputs) > 1:
            claims += _bound_claims(config, rows, words)
        names = words_of("kernel_samples", words)
        ran = [True] if (~is_network).any() else []
        claim = every(*names, ran, _size(kernels))
        claims.append(claim._replace(status="measured") if ran else claim)
        both = is_network.nunique() == 2
        fewer = [nets.first < kernels.first and nets.first <= kernels.lower] if both else []
        claims.append(every(*words_of("resnet_samples", words), fewer, _size(nets)))
    return claims


def most_samples(d: int, k: int) -> int:
    """Returns the largest N of theorem 2, and the largest dimension of theorem 3: C(d, k) / 1000.

    Source: Allen-Zhu and Li (arXiv 1905.10337), section 7.1, on the uniform cube.
    """
    return math.comb(int(d), int(k)) // 1000


def _bound_claims(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, words: dict[str, Any]
) -> list[Claim]:
    """Returns what theorems 2 and 3 and corollary 7.1 say of linear F and one product of it.

    A kernel of which nothing is known but a large error may be a broken one: it has to have learned
    F, whose error is k beta^2. And a bound that no learner reaches tells none apart: all of the
    ResNet's seeds have to be below it.
    """
    most = most_samples(words["d"], words["composite"])
    risk = rows["alpha"].iloc[0] ** 2 / 16
    words = words | {"most": most, "risk": risk}
    is_network = rows["learner"].isin(NETWORK_LEARNERS)
    has_features = rows["learner"] == "last_exact"
    few = (rows["num_train"] <= most) & ~is_network & ~has_features
    parts = {
        "kernel_risk": rows[few],
        "feature_risk": rows[has_features & (rows["width"] <= most)],
    }
    nets, claims = _sizes(rows[is_network], risk, "max"), []
    for name, part in parts.items():
        medians = part.groupby([*_SERIES, "num_train"], dropna=False)["test_error"].median()
        least = part.iloc[:0] if medians.empty else part.loc[_at(part, medians.idxmin())]
        learned = (least["test_error"] < LEARNED * least.apply(answer_zero, axis=1)).all()
        control = "" if np.isfinite(nets.first) else "the ResNet does not get there"
        control = control if learned else "it does not learn the base signal either"
        options = {"num_test": config.num_test, "above": risk, "unless": control}
        claims.append(errors_claim(name, least["test_error"], **options, **words))
    ran = [nets.first <= most] if is_network.any() else []
    claims.append(every(*words_of("resnet_risk", words), ran, _size(nets)))
    return claims


def _at(rows: pd.DataFrame, place: tuple) -> pd.Series:
    """Says which rows are of a series, where one that has no width has NaN, and of an N."""
    names = [*_SERIES, "num_train"]
    found = pd.Series(True, index=rows.index)
    for name, value in zip(names, place, strict=True):
        found &= rows[name].isna() if pd.isna(value) else rows[name] == value
    return found
