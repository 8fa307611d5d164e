"""From how many examples on targets are learned, beside what the paper proves of it."""

import math
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.claims import (
    LEARNED,
    answer_zero,
    errors_claim,
    examples_error,
    logarithms,
    threshold,
    words_of,
)
from lsa_jax.experiments.resnet.hierarchical.settings import NETWORK_LEARNERS
from lsa_jax.reporting.claims import compare, measured, not_run
from lsa_jax.reporting.report import Claim, Status

TASK = ["d", "base_degree", "composite_degree", "outputs"]
_SERIES = ["net", "learner", "width"]


def _decided(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, bound: float
) -> list[dict[int, Claim]]:
    """Compares the errors of each series with a bound, by N, over seeds and test examples.

    A claim is shown where they surely are below it, and not shown where they surely are not.
    """
    options = {"below": float(np.log(bound)), "examples_error": examples_error(config.num_test)}
    return [
        {
            int(num_train): compare("", "", logarithms(errors), **options)
            for num_train, errors in series.groupby("num_train")["test_error"]
        }
        for _, series in rows.groupby(_SERIES, dropna=False)
    ]


def _first(decided: list[dict[int, Claim]]) -> int | None:
    """Returns the least N at which a series surely is below the bound; None: at no N."""
    sure = [n for series in decided for n, claim in series.items() if claim.status == "shown"]
    return min(sure, default=None)


def _size(decided: list[dict[int, Claim]]) -> str:
    first = _first(decided)
    most = max(n for series in decided for n in series)
    return f"not surely to N = {most:,}" if first is None else f"{first:g}"


def _reached(decided: list[dict[int, Claim]]) -> Status:
    """Says whether a series gets below the bound at some N."""
    found = {claim.status for series in decided for claim in series.values()}
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
            note = claim.note or f"in the place of {num_train:,} a kernel is not above the bound"
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


def sample_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns from how many examples on G(F) is learned, and what theorem 2 says of its targets.

    Intervals decide, over seeds and test examples. Where no kernel gets there, all that is known is
    that it takes more than the largest N that was run. That kernels need many says nothing where
    the ResNet does not get there either.
    """
    claims = []
    for (d, base_degree, composite_degree, outputs), rows in fine.groupby(TASK):
        bound = LEARNED * threshold(rows.iloc[0])
        is_network = rows["learner"].isin(NETWORK_LEARNERS)
        kernels = _decided(config, rows[~is_network], bound)
        nets = _decided(config, rows[is_network], bound)
        words = {"d": d, "base": base_degree, "composite": composite_degree}
        in_theorem = base_degree == 1 and composite_degree == outputs
        if in_theorem and most_samples(d, outputs) > 1:
            claims += _bound_claims(config, rows, words)
        of_kernels = not_run(*words_of("kernel_samples", words))
        if kernels:
            of_kernels = measured(*of_kernels[:2], _size(kernels))
        of_nets = not_run(*words_of("resnet_samples", words))
        if kernels and nets:
            status, note = _fewer(nets, kernels)
            of_nets = of_nets._replace(ours=_size(nets), status=status, note=note)
        claims += [of_kernels, of_nets]
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
    F, whose error is k beta^2. And a bound that no learner reaches tells none apart: the ResNet has
    to be surely below it.
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
    nets = _decided(config, rows[is_network & (rows["num_train"] <= most)], risk)
    claims = []
    for name, part in parts.items():
        medians = part.groupby([*_SERIES, "num_train"], dropna=False)["test_error"].median()
        least = part.iloc[:0] if medians.empty else part.loc[_at(part, medians.idxmin())]
        learned = (least["test_error"] < LEARNED * least.apply(answer_zero, axis=1)).all()
        control = "" if _reached(nets) == "shown" else "the ResNet is not shown to get there"
        control = control if learned else "it does not learn the base signal either"
        options = {"num_test": config.num_test, "above": risk, "unless": control}
        # What was run may be less than what the theorem speaks of.
        ran = {"examples": most, "features": most}
        if len(part):
            ran = {"examples": part["num_train"].max(), "features": part["width"].max()}
        claims.append(errors_claim(name, least["test_error"], **options, **words, **ran))
    of_nets = not_run(*words_of("resnet_risk", words))
    if nets:
        of_nets = of_nets._replace(ours=_size(nets), status=_reached(nets))
    return [*claims, of_nets]


def _at(rows: pd.DataFrame, place: tuple) -> pd.Series:
    """Says which rows are of a series, where one that has no width has NaN, and of an N."""
    names = [*_SERIES, "num_train"]
    found = pd.Series(True, index=rows.index)
    for name, value in zip(names, place, strict=True):
        found &= rows[name].isna() if pd.isna(value) else rows[name] == value
    return found
