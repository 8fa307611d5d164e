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
    examples_error,
    logarithms,
    threshold,
    words_of,
)
from lsa_jax.experiments.resnet.hierarchical.settings import NETWORK_LEARNERS
from lsa_jax.reporting.claims import compare, measured, not_run
from lsa_jax.reporting.report import Claim

TASK = ["d", "base_degree", "composite_degree", "outputs"]
_SERIES = ["net", "learner", "width"]


class _Decided(NamedTuple):
    """What an interval says of a series at one N.

    Attributes:
        num_train: N.
        below: whether its error is below the bound: shown, not shown, undecided.
        note: what it would take where it is undecided.
    """

    num_train: float
    below: str
    note: str


def _decided(config: ml_collections.ConfigDict, rows: pd.DataFrame, bound: float) -> list[_Decided]:
    """Compares the errors of one series with a bound, at each N, over seeds and test examples."""
    found = []
    for num_train, errors in rows.groupby("num_train")["test_error"]:
        options = {"below": float(np.log(bound)), "examples_error": examples_error(config.num_test)}
        claim = compare("", "", logarithms(errors), **options)
        found.append(_Decided(float(num_train), claim.status, claim.note))
    return found


def _series(rows: pd.DataFrame) -> list[pd.DataFrame]:
    return [series for _, series in rows.groupby(_SERIES, dropna=False)]


def _first(config: ml_collections.ConfigDict, rows: pd.DataFrame, bound: float) -> _Decided | None:
    """Returns the least N at which a series of some is surely below a bound; None: at no N."""
    decided = [one for series in _series(rows) for one in _decided(config, series, bound)]
    sure = [one for one in decided if one.below == "shown"]
    return min(sure, key=lambda one: one.num_train, default=None)


def _size(first: _Decided | None, rows: pd.DataFrame) -> str:
    if first is not None:
        return f"{first.num_train:g}"
    return f"not surely to N = {rows['num_train'].max():,g}" if len(rows) else ""


def _reached(config: ml_collections.ConfigDict, rows: pd.DataFrame, bound: float) -> str:
    """Says whether a learner gets below a bound at some N: shown, not shown or undecided."""
    found = {one.below for series in _series(rows) for one in _decided(config, series, bound)}
    return next((one for one in ("shown", "undecided") if one in found), "not shown")


def _fewer(
    config: ml_collections.ConfigDict, nets: pd.DataFrame, kernels: pd.DataFrame, bound: float
) -> tuple[str, str]:
    """Says whether networks need fewer examples than every kernel, and what it would take.

    At the least N at which a network surely is below the bound, no kernel may be. A kernel of which
    that N was not run has to be above at the next one that was.
    """
    first = _first(config, nets, bound)
    if first is None:
        return _reached(config, nets, bound), ""
    statuses, notes = set(), []
    for series in _series(kernels):
        decided = _decided(config, series, bound)
        later = [one.num_train for one in decided if one.num_train >= first.num_train]
        if not later:
            statuses.add("undecided")
            notes.append(f"a kernel was run to N = {decided[-1].num_train:g} alone")
        for one in decided:
            if one.num_train <= min(later, default=np.inf):
                statuses.add(one.below)
                notes += [f"at N = {one.num_train:g} {one.note}"] if one.note else []
    if "shown" in statuses:  # a kernel that surely is below
        return "not shown", ""
    return ("undecided", notes[0]) if "undecided" in statuses else ("shown", "")


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
        kernels, nets = rows[~is_network], rows[is_network]
        words = {"d": d, "base": base_degree, "composite": composite_degree}
        in_theorem = base_degree == 1 and composite_degree == outputs
        if in_theorem and most_samples(d, outputs) > 1:
            claims += _bound_claims(config, rows, words)
        of_kernels = not_run(*words_of("kernel_samples", words))
        if len(kernels):
            of_kernels = measured(*of_kernels[:2], _size(_first(config, kernels, bound), kernels))
        of_nets = not_run(*words_of("resnet_samples", words))
        if len(kernels) and len(nets):
            status, note = _fewer(config, nets, kernels, bound)
            size = _size(_first(config, nets, bound), nets)
            of_nets = of_nets._replace(ours=size, status=status, note=note)
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
    words = words | {"most": most, "risk": risk, "examples": most, "features": most}
    is_network = rows["learner"].isin(NETWORK_LEARNERS)
    has_features = rows["learner"] == "last_exact"
    few = (rows["num_train"] <= most) & ~is_network & ~has_features
    parts = {
        "kernel_risk": rows[few],
        "feature_risk": rows[has_features & (rows["width"] <= most)],
    }
    nets = rows[is_network & (rows["num_train"] <= most)]
    reached = _reached(config, nets, risk) if len(nets) else "not run"
    claims = []
    for name, part in parts.items():
        medians = part.groupby([*_SERIES, "num_train"], dropna=False)["test_error"].median()
        least = part.iloc[:0] if medians.empty else part.loc[_at(part, medians.idxmin())]
        learned = (least["test_error"] < LEARNED * least.apply(answer_zero, axis=1)).all()
        control = "" if reached == "shown" else "the ResNet is not shown to get there"
        control = control if learned else "it does not learn the base signal either"
        options = {"num_test": config.num_test, "above": risk, "unless": control}
        if len(part):  # what was run, which may be less than what the theorem speaks of
            words |= {"examples": part["num_train"].max(), "features": part["width"].max()}
        claims.append(errors_claim(name, least["test_error"], **options, **words))
    of_nets = not_run(*words_of("resnet_risk", words))
    if len(nets):
        of_nets = of_nets._replace(ours=_size(_first(config, nets, risk), nets), status=reached)
    return [*claims, of_nets]


def _at(rows: pd.DataFrame, place: tuple) -> pd.Series:
    """Says which rows are of a series, where one that has no width has NaN, and of an N."""
    names = [*_SERIES, "num_train"]
    found = pd.Series(True, index=rows.index)
    for name, value in zip(names, place, strict=True):
        found &= rows[name].isna() if pd.isna(value) else rows[name] == value
    return found
