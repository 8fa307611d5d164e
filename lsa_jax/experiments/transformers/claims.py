"""What the thesis says of decision lists beside what came out: the claims of the four questions.

A statement about all runs is refuted by one that does otherwise, and shown where all do so: all
that were asked for, at least two, which are not equal. A run without a number, such as one that
failed, refutes nothing, and those that are left without it show nothing.
"""

from collections.abc import Sequence

import ml_collections
import numpy as np
import pandas as pd
import scipy.stats

from lsa_jax.experiments.transformers.numbers import DECISION_LIST_CLAIMS
from lsa_jax.experiments.transformers.settings import sweep
from lsa_jax.reporting.claims import LUCK, compare, every, measured, not_run
from lsa_jax.reporting.doubts import lost_runs, named_runs
from lsa_jax.reporting.report import Claim

# A correlation of V with P counts as "picked up" from here up.
PICKED_UP = 0.9

CASE = {"vocabulary_size": "L", "sequence_length": "n", "list_length": "M"}

_MOST_SEEDS = 1000
_UNIT = [*CASE, "seed"]

# What differs between runs that drew anything: no count, and no number that has a largest value.
_DRAWN = {
    "value_fixed": ("eigenvalue", "largest_rise", "least_slope_ratio"),
    "value_near": ("eigenvalue", "largest_rise", "least_slope_ratio", "value_distance"),
    "value_step": ("correlation", "on_mean", "on_min", "off_max"),
    "value_random": ("start_distance", "loss", "correlation"),
}


def gaps(config: ml_collections.ConfigDict, results: pd.DataFrame) -> str:
    """Names the runs that the sweep asks for and that failed or are not there; empty of none."""
    lost = lost_runs(sweep(config), results[results["status"] == "ok"])
    # Those that a sweep did not ask for have failed all the same.
    failed = int((results["status"] == "failed").sum())
    return lost or (f"{failed} of {len(results)} runs failed" if failed else "")


def _fine(results: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Returns the runs that did not fail, with all columns, as numbers."""
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    fine = fine.reindex(columns=[*dict.fromkeys([*columns, *_UNIT])])
    # A sweep in which no run was perfect has a column of None.
    return fine.astype(float)


def _no_sample(rows: pd.DataFrame, columns: Sequence[str], setting: Sequence[str]) -> str:
    """Says why runs are no sample of anything; empty if they are.

    Seeds that are equal to the last bit everywhere have drawn nothing that matters, and neither
    have settings that are. At one setting seeds may be: lists of full length are relabellings.
    """
    if len(rows) < 2:
        return "it would take 2 runs or more" if len(rows) else ""
    drawn = [name for name in columns if name in rows and rows[name].notna().any()]
    by_setting = rows.groupby(list(setting))
    several = by_setting.size().max() > 1
    differ = by_setting[drawn].nunique() if several else rows[drawn].nunique()
    if (differ <= 1).all(axis=None):
        return f"all {'seeds' if several else 'runs'} are equal"
    return ""


def _claim(
    name: str,
    holds: pd.Series,
    ours: str | float,
    doubts: Sequence[str] = (),
    *,
    luck: float = 0.0,
) -> Claim:
    """Claims that something holds in every run.

    Args:
        name: of `DECISION_LIST_CLAIMS`.
        holds: 1 or 0 by run, NaN where it is not known.
        ours: what came out.
        doubts: what speaks against relying on it; those that are empty do not.
        luck: as in `claims.every`.
    """
    names, known = DECISION_LIST_CLAIMS[name], holds.dropna()
    doubts = [doubt for doubt in doubts if doubt]
    if holds.empty:
        return not_run(*names, note="; ".join(doubts))
    if len(known) < len(holds):
        doubts.append(f"{len(holds) - len(known)} of {len(holds)} runs have no number")
    unless = "; ".join(doubts)
    if known.empty:
        return Claim(*names, "", None, "undecided", note=unless)
    return every(*names, known == 1, ours, unless=unless, luck=luck)


def _where(known: pd.Series, holds: pd.Series) -> pd.Series:
    """Returns 1 or 0 for whether something holds, and NaN where it is not known."""
    return holds.astype(float).where(known)


def _count(holds: pd.Series) -> str:
    return f"{int((holds == 1).sum())} of {len(holds)}"


def _finite(values: pd.Series) -> pd.Series:
    return np.isfinite(values.astype(float))


def theorem_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns what theorem 4.3 or 4.4 says beside what its descents show.

    A run that ended before its bound without having been perfect does not refute it.

    Args:
        config: of the sweep.
        results: its results, those that failed too.
    """
    theorem = "theorem4_3" if config.question == "value_fixed" else "theorem4_4"
    drawn = _DRAWN[config.question]
    found = _fine(results, [*drawn, "epsilon", "first_perfect", "bound", "ordered"])
    perfect, bound = found["first_perfect"], found["bound"]
    over = perfect.notna() | (config.max_steps >= bound)
    within = _where(_finite(bound) & over, perfect <= bound)
    setting = [*CASE, *(["epsilon"] if theorem == "theorem4_4" else [])]
    ended = found.loc[_finite(bound) & ~over, [*setting, "seed"]]
    ended = [
        {name: f"{value:g}" for name, value in row.items()} for row in ended.to_dict("records")
    ]
    short = f"ended after {config.max_steps} steps, before their bound"
    doubts = [gaps(config, results), named_runs(short, ended, len(found))]
    doubts.append(_no_sample(found, drawn, setting))
    ours = f"{_count(within)}; {perfect.max():g} steps at most, "
    ours += f"{(perfect / bound).max():.1g} of the bound at most"
    rise, slope = found["largest_rise"], found["least_slope_ratio"]
    # Without a step there is no rise, not even one below 0. The proofs have the loss fall.
    falls = _where(_finite(rise), rise < 0)
    large = _where(_finite(slope), slope > 1)
    claims = [_claim(theorem, within, ours, doubts)]
    # A descent that gets nowhere may well do so as the proofs say.
    nowhere = "" if (within == 1).all() else "not every run is perfect within the bound"
    doubts = [nowhere, *doubts]
    least = f"{slope.min():.3g} at least"
    claims.append(_claim("loss_falls", falls, _count(falls), doubts))
    claims.append(_claim("gradient", large, least, doubts))
    if theorem == "theorem4_3":
        ordered = found["ordered"]
        held = _where(_finite(ordered), ordered == 1)
        claims.append(_claim("column_order", held, f"{ordered.min():.4g}", doubts))
    else:
        distance = found["value_distance"]
        near, most = _where(_finite(distance), distance <= 1), f"{distance.max():.4g} at most"
        claims.append(_claim("lemma4_1", near, most, doubts))
    return claims


def _of_one_draw(config: ml_collections.ConfigDict, exact: pd.DataFrame) -> str:
    """Says why one exact step a size is no result: where it is, another V_0 would change nothing.

    The step itself is of the whole population, and no draw but V_0 is in it. V has P where its
    least entry on P is above its largest off P, by more than two of V_0's entries come to, the
    largest of all L^2 in 97.5 % of the draws.
    """
    beyond = scipy.stats.norm.isf(LUCK / (2 * exact["vocabulary_size"] ** 2))
    if (exact["on_min"] - exact["off_max"] > 2 * config.value_std * beyond).all():
        return ""
    return "one draw of V_0, which may have made it so: it would take 2 seeds or more"


def step_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns what figure 4.1 is said to show beside what the exact and sampled steps show.

    A sampled step needs seeds: one sample does not tell what others show. Arguments as in
    `theorem_claims`.
    """
    drawn = _DRAWN["value_step"]
    names = [*drawn, "num_sequences", "columns_right", "uniform_attention_limit"]
    of_exact = results["gradient"] == "exact"
    exact, sampled = _fine(results[of_exact], names), _fine(results[~of_exact], names)
    largest = sampled[sampled["num_sequences"] == max(config.sweep.num_sequences)]
    lost = gaps(config, results)
    one = "it would take 2 seeds or more" if len(largest) == 1 else ""
    exact_doubts = [lost, _of_one_draw(config, exact)]
    equal = _no_sample(largest, drawn, list(CASE)) if len(largest) > 1 else ""
    sampled_doubts = [lost, one, equal]

    def columns(name: str, rows: pd.DataFrame, doubts: list[str]) -> Claim:
        right, tokens = rows["columns_right"], rows["vocabulary_size"].min()
        # A column has its largest entry there by luck in one of L cases.
        options = {"luck": float(tokens**-tokens)}
        held = _where(_finite(right), right == 1)
        return _claim(name, held, f"{right.min():.4g} of the columns", doubts, **options)

    found = exact["correlation"]
    held, mean = _where(_finite(found), found >= PICKED_UP), f"{found.mean():.4f}"
    claims = [
        columns("exact_columns", exact, exact_doubts),
        _claim("exact_correlation", held, mean, exact_doubts),
        columns("sampled_columns", largest, sampled_doubts),
        _sampled_correlation(largest["correlation"], [lost, equal]),
    ]
    limit = sampled["uniform_attention_limit"]
    # That V is not enough says something where it has what it can have.
    shown = claims[0].status == "shown"
    one = "it would take 2 seeds or more" if sampled["seed"].nunique() == 1 else ""
    doubts = ["" if shown else "V does not show P", lost, one]
    below, most = _where(_finite(limit), limit < 1), f"{limit.max():.3f} at most"
    return [*claims, _claim("attention_needed", below, most, doubts)]


def _sampled_correlation(values: pd.Series, doubts: Sequence[str]) -> Claim:
    """Claims that the mean correlation over samples is from `PICKED_UP` up, by its interval."""
    lost = int((~_finite(values)).sum())
    unless = [*doubts, f"{lost} of {len(values)} runs have no number" if lost else ""]
    unless = "; ".join(filter(None, unless))
    names = DECISION_LIST_CLAIMS["sampled_correlation"]
    if lost == len(values) > 0:
        return Claim(*names, "", None, "undecided", note=unless)
    claim = compare(*names, values[_finite(values)], above=PICKED_UP, unless=unless)
    return claim.within(-1.0, 1.0)


def training_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns what the thesis leaves open beside the share of runs that succeeded.

    That all runs from near cP succeed has to do with being near where fewer do from a random V_0:
    by Fisher's exact test of one side (1935), at 2.5 %. What counts once is a size and seed, which
    all scales share: it succeeds where it does at all of them. Arguments as in `theorem_claims`.
    """
    drawn = _DRAWN["value_random"]
    found = _fine(results, [*drawn, "value_scale", "randomness", "success"])
    least = found["randomness"].min()
    near = found.loc[found["randomness"] == least] if least < 1 else found.iloc[:0]
    random = found.loc[found["randomness"] == 1]
    names = DECISION_LIST_CLAIMS["random_success"]
    count = _count(random["success"])
    open_question = measured(*names, count) if len(random) else not_run(*names)
    doubts = [gaps(config, results), _by_chance(near, random)]
    doubts.append(_no_sample(found, drawn, [*CASE, "value_scale", "randomness"]))
    success = near["success"]
    return [_claim("near_success", success, _count(success), doubts), open_question]


def _by_chance(near: pd.DataFrame, random: pd.DataFrame) -> str:
    """Says why runs from near and from random starts are not told apart; empty if they are."""
    if near.empty:
        return ""
    if random.empty:
        return "no random start was run beside it"
    if lost := int(random["success"].isna().sum()):
        return f"{lost} of {len(random)} runs from a random V_0 have no number"
    ends = [rows.groupby(_UNIT)["success"].min().dropna() for rows in (near, random)]
    seeds = min(rows["seed"].nunique() for rows in (near, random))
    if seeds < 2:
        return "it would take 2 seeds or more"
    counts = [(int((end == 1).sum()), len(end)) for end in ends]
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
