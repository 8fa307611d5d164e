"""From which V_0 both are trained to the end: what the thesis leaves open, by distance from cP.

That all runs from near cP succeed has to do with being near where fewer do from a random V_0: by
Fisher's exact test of one side (1935), at 2.5 %. What counts once is a size and seed, which all
scales c share: it succeeds where it does at all of them. As one scale may make all the difference,
successes are told by scale, and so is at which of them the same test tells the starts apart.
"""

from collections.abc import Sequence

import ml_collections
import pandas as pd
import scipy.stats

from lsa_jax.experiments.transformers.runs import (
    CASE,
    DRAWN,
    UNIT,
    count,
    every_run,
    finished,
    gaps,
    item_of,
    no_sample_of_runs,
)
from lsa_jax.reporting.claims import LUCK, measured, not_run
from lsa_jax.reporting.report import Claim

_MOST_SEEDS = 1000


def training_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns what runs from cP, and from the nearest start to it, come to beside random starts.

    Args:
        config: of the sweep.
        results: its results, those that failed too.
    """
    drawn = DRAWN["value_random"]
    found = finished(results, [*drawn, "value_scale", "randomness", "success"])
    random = found[found["randomness"] == 1]
    names = item_of("random_success")
    open_question = measured(*names, _by_scale(random)) if len(random) else not_run(*names)
    lost = gaps(config, results)
    equal = no_sample_of_runs(found, drawn, [*CASE, "value_scale", "randomness"])
    near = found[found["randomness"] < 1]
    if near.empty:
        return [every_run("near_success", near["success"], "", [lost, equal]), open_question]
    itself, nearest = near[near["randomness"] == 0], near[near["randomness"] > 0]
    nearest = nearest[nearest["randomness"] == nearest["randomness"].min()]
    claims = [
        _near_claim(name, rows, random, lost, equal)
        for name, rows in (("cp_success", itself), ("near_success", nearest))
        if len(rows)
    ]
    return [*claims, open_question]


def _near_claim(
    name: str, near: pd.DataFrame, random: pd.DataFrame, lost: str, equal: str
) -> Claim:
    """Returns the claim that all runs from one r succeed, where fewer do from a random V_0."""
    doubts = [lost, _by_chance(near, random), equal]
    bound = f"r = {near['randomness'].iloc[0]:g}"
    claim = every_run(name, near["success"], _by_scale(near), doubts, bound=bound)
    return claim._replace(note=_scales_apart(near, random)) if claim.status == "shown" else claim


def _by_scale(rows: pd.DataFrame) -> str:
    """Returns how many runs succeed, and how many at each scale c where there are several."""
    counts = {c: count(own["success"]) for c, own in rows.groupby("value_scale")}
    whole = count(rows["success"])
    if len(counts) < 2:
        return whole
    if len(set(counts.values())) == 1:
        return f"{whole}: {next(iter(counts.values()))} at each c"
    return f"{whole}: " + ", ".join(f"{own} at c = {c:g}" for c, own in counts.items())


def _scales_apart(near: pd.DataFrame, random: pd.DataFrame) -> str:
    """Says at which scales c alone fewer random starts succeed; empty where at all of them."""
    scales = sorted(set(near["value_scale"]) & set(random["value_scale"]))
    apart = [
        f"{c:g}"
        for c in scales
        if _are_apart(*(_successes(rows[rows["value_scale"] == c]) for rows in (near, random)))
    ]
    if len(apart) == len(scales):
        return ""
    at = f"at c = {', '.join(apart)} alone" if apart else "at no c by itself"
    return f"random starts are shown to succeed less often {at}"


def _successes(rows: pd.DataFrame) -> tuple[int, int]:
    """Returns how many sizes and seeds succeed at all their scales, and how many there are."""
    ends = rows.groupby(UNIT)["success"].min().dropna()
    return int((ends == 1).sum()), len(ends)


def _by_chance(near: pd.DataFrame, random: pd.DataFrame) -> str:
    """Says why runs from near and from random starts are not told apart; empty if they are."""
    if random.empty:
        return "no random start was run beside it"
    if lost := int(random["success"].isna().sum()):
        return f"{lost} of {len(random)} runs from a random V_0 have no number"
    seeds = min(rows["seed"].nunique() for rows in (near, random))
    if seeds < 2:
        return "it would take 2 seeds or more"
    counts = [_successes(near), _successes(random)]
    if 0 in (counts[0][1], counts[1][1]) or _are_apart(*counts):
        return ""
    return "it would take " + _seeds_for(counts, seeds)


def _are_apart(near: tuple[int, int], random: tuple[int, int]) -> bool:
    """Tells whether more of the first succeed: `(successes, of how many)` of both."""
    table = [[right, of - right] for right, of in (near, random)]
    return bool(scipy.stats.fisher_exact(table, alternative="greater").pvalue <= LUCK)


def _seeds_for(counts: Sequence[tuple[int, int]], seeds: int) -> str:
    """Returns, in words, how many seeds would tell them apart at the same rates."""
    if counts[0][0] / counts[0][1] <= counts[1][0] / counts[1][1]:
        return "no number of seeds, at these rates"
    for more in range(seeds + 1, _MOST_SEEDS):
        scaled = [(round(right * more / seeds), round(of * more / seeds)) for right, of in counts]
        if _are_apart(*scaled):
            return f"about {more} seeds"
    return f"more than {_MOST_SEEDS} seeds"
