"""What the thesis says of decision lists beside what came out: theorems 4.3 and 4.4, figure 4.1."""

from collections.abc import Sequence

import ml_collections
import pandas as pd
import scipy.stats

from lsa_jax.experiments.transformers.runs import (
    CASE,
    DRAWN,
    count,
    every_run,
    finished,
    finite,
    gaps,
    item_of,
    no_sample_of_runs,
    where,
)
from lsa_jax.reporting.claims import LUCK, compare
from lsa_jax.reporting.doubts import named_runs
from lsa_jax.reporting.report import Claim

# V has "picked up" P where its correlation with P is above this.
PICKED_UP = 0.9
_PICKED_UP = f"above {PICKED_UP:g}"


def theorem_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns what theorem 4.3 or 4.4 says beside what its descents show.

    A run that ended before its bound without having been perfect does not refute it.

    Args:
        config: of the sweep.
        results: its results, those that failed too.
    """
    theorem = "theorem4_3" if config.question == "value_fixed" else "theorem4_4"
    drawn = DRAWN[config.question]
    found = finished(results, [*drawn, "epsilon", "first_perfect", "bound", "ordered"])
    perfect, bound = found["first_perfect"], found["bound"]
    over = perfect.notna() | (config.max_steps >= bound)
    within = where(finite(bound) & over, perfect <= bound)
    setting = [*CASE, *(["epsilon"] if theorem == "theorem4_4" else [])]
    ended = found.loc[finite(bound) & ~over, [*setting, "seed"]]
    ended = [
        {name: f"{value:g}" for name, value in row.items()} for row in ended.to_dict("records")
    ]
    short = f"ended after {config.max_steps} steps, before their bound"
    doubts = [gaps(config, results), named_runs(short, ended, len(found))]
    doubts.append(no_sample_of_runs(found, drawn, setting))
    ours = f"{count(within)}; {perfect.max():g} steps at most, "
    ours += f"{(perfect / bound).max():.1g} of the bound at most"
    rise, slope = found["largest_rise"], found["least_slope_ratio"]
    # Without a step there is no rise, not even one below 0. The proofs have the loss fall.
    falls = where(finite(rise), rise < 0)
    large = where(finite(slope), slope > 1)
    claims = [every_run(theorem, within, ours, doubts)]
    # A descent that gets nowhere may well do so as the proofs say.
    nowhere = "" if (within == 1).all() else "not every run is perfect within the bound"
    doubts = [nowhere, *doubts]
    least = f"{slope.min():.3g} at least"
    claims.append(every_run("loss_falls", falls, count(falls), doubts))
    claims.append(every_run("gradient", large, least, doubts))
    if theorem == "theorem4_3":
        ordered = found["ordered"]
        held = where(finite(ordered), ordered == 1)
        claims.append(every_run("column_order", held, f"{ordered.min():.4g}", doubts))
    else:
        distance = found["value_distance"]
        near, most = where(finite(distance), distance <= 1), f"{distance.max():.4g} at most"
        claims.append(every_run("lemma4_1", near, most, doubts))
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
    drawn = DRAWN["value_step"]
    names = [*drawn, "num_sequences", "columns_right", "uniform_attention_limit"]
    of_exact = results["gradient"] == "exact"
    exact, sampled = finished(results[of_exact], names), finished(results[~of_exact], names)
    largest = sampled[sampled["num_sequences"] == max(config.sweep.num_sequences)]
    lost = gaps(config, results)
    one = "it would take 2 seeds or more" if len(largest) == 1 else ""
    exact_doubts = [lost, _of_one_draw(config, exact)]
    equal = no_sample_of_runs(largest, drawn, list(CASE)) if len(largest) > 1 else ""
    sampled_doubts = [lost, one, equal]

    def columns(name: str, rows: pd.DataFrame, doubts: list[str]) -> Claim:
        right, tokens = rows["columns_right"], rows["vocabulary_size"].min()
        # A column has its largest entry there by luck in one of L cases.
        options = {"luck": float(tokens**-tokens)}
        held = where(finite(right), right == 1)
        return every_run(name, held, f"{right.min():.4g} of the columns", doubts, **options)

    found = exact["correlation"]
    held, mean = where(finite(found), found > PICKED_UP), f"{found.mean():.4f}"
    claims = [
        columns("exact_columns", exact, exact_doubts),
        every_run("exact_correlation", held, mean, exact_doubts, bound=_PICKED_UP),
        columns("sampled_columns", largest, sampled_doubts),
        _sampled_correlation(largest["correlation"], [lost, equal]),
    ]
    limit = sampled["uniform_attention_limit"]
    # That V is not enough says something where it has what it can have.
    shown = claims[0].status == "shown"
    one = "it would take 2 seeds or more" if sampled["seed"].nunique() == 1 else ""
    doubts = ["" if shown else "V does not show P", lost, one]
    below, most = where(finite(limit), limit < 1), f"{limit.max():.3f} at most"
    return [*claims, every_run("attention_needed", below, most, doubts)]


def _sampled_correlation(values: pd.Series, doubts: Sequence[str]) -> Claim:
    """Claims that the mean correlation over samples is above `PICKED_UP`, by its interval."""
    lost = int((~finite(values)).sum())
    unless = [*doubts, f"{lost} of {len(values)} runs have no number" if lost else ""]
    unless = "; ".join(filter(None, unless))
    names = item_of("sampled_correlation", _PICKED_UP)
    if lost == len(values) > 0:
        return Claim(*names, "", None, "undecided", note=unless)
    claim = compare(*names, values[finite(values)], above=PICKED_UP, unless=unless)
    return claim.within(-1.0, 1.0)
