"""What the thesis says of growing beside what came out, over seeds and operators."""

from collections.abc import Sequence

import ml_collections
import pandas as pd

from lsa_jax.experiments.growing.correlations import correlate, not_told_apart
from lsa_jax.experiments.growing.doubts import (
    DRAWN,
    few_operators,
    missing_operators,
    missing_seeds,
    without,
)
from lsa_jax.experiments.growing.families import EARLY_SPEARMAN
from lsa_jax.experiments.growing.measures import MOST_UNEXPLAINED
from lsa_jax.experiments.growing.numbers import (
    GROWING,
    GROWING_TRANSITION,
    STACKING_LOSS,
    GrowingNumbers,
)
from lsa_jax.reporting.claims import compare, every, not_run, spread
from lsa_jax.reporting.doubts import doubted, no_sample
from lsa_jax.reporting.report import Claim

# Fixed before anything was run: a mean rank correlation up to the first counts as uninformative,
# one from the second on as predictive, a mean relative regret up to the third as low.
UNINFORMATIVE = 0.3
PREDICTIVE = 0.7
LOW_REGRET = 0.25

# The learning rate of the thesis' runs: its numbers are put beside no other.
_SCHEDULE_OF_THESIS = {"encoder": "constant", "decoder": "cosine"}

SETTING = ["kind", "schedule"]


def setting_claims(
    config: ml_collections.ConfigDict, kind: str, schedule: str, found: pd.DataFrame
) -> list[Claim]:
    """Returns what the thesis says of growing beside one network and schedule, over seeds.

    What foretells is an early loss, not the loss on growing: that the one is predictive is shown
    where the other is shown to be less so. That a loss on growing tells nothing, or a choice costs
    little, says something where an early loss does tell: else final losses may differ by their
    noise alone.
    """
    where, k = f"{kind}, {schedule} rate", config.lag_steps
    paper = GROWING[kind] if schedule == _SCHEDULE_OF_THESIS[kind] else None
    refuted = [few_operators(found), no_sample(found, DRAWN)]
    against = [missing_seeds(config, found["seed"]), missing_operators(config, found)]

    def decided(claim: Claim) -> Claim:
        return doubted(claim, against, refuted)

    printed = {k: "strong", **paper.early_spearman} if paper else {k: ""}
    early = [decided(_early_claim(where, k, steps, printed[steps], found)) for steps in printed]
    unless = "" if early[0].status == "shown" else "no early loss is shown to be predictive"
    initial = correlate(
        f"Spearman of the loss on growing with the final one ({where})",
        (paper and (paper.initial_spearman or "not predictive")) or "",
        found["initial_spearman"],
        found["operators"],
        below=UNINFORMATIVE,
        unless=unless,
    )
    changes = _transition_claim(where, (paper and GROWING_TRANSITION[kind]) or "", found, unless)
    others = [*_regret_claims(k, where, paper, found, unless), changes]
    if "relative_regret stack_random" in found:
        others.append(_top_claim(where, paper is not None, found, unless))
    initial, *others = [decided(claim) for claim in (initial, *others)]
    first, *later = [
        _beside_growing(claim, found, _early(k, steps))
        for steps, claim in zip(printed, early, strict=True)
    ]
    return [initial, first, *others, *later]


def _early(k: int, steps: int) -> str:
    return "lag_spearman" if steps == k else f"{EARLY_SPEARMAN}{steps}"


def _early_claim(
    where: str, k: int, steps: int, printed: str | float, found: pd.DataFrame
) -> Claim:
    """Returns the correlation after as many steps, where they were taken."""
    item = f"Spearman of the loss after {steps} steps with the final one ({where})"
    values = found[_early(k, steps)]
    if steps != k and values.isna().all():
        return not_run(item, printed, f"no loss after {steps} steps, before the final ones")
    return correlate(item, printed, values, found["operators"], above=PREDICTIVE)


def _beside_growing(claim: Claim, found: pd.DataFrame, early: str) -> Claim:
    """Returns the claim, undecided where the loss on growing may foretell as much."""
    if claim.status != "shown":
        return claim
    initial = found["initial_spearman"]
    return doubted(claim, [not_told_apart(found[early], initial, found["operators"])])


def _regret_claims(
    k: int, where: str, paper: GrowingNumbers | None, found: pd.DataFrame, unless: str
) -> list[Claim]:
    """Returns what LAG@k costs, and what it costs less than LAG@0.

    That it costs little says something where LAG@0 costs more.
    """
    printed = paper.relative_regret if paper else {}
    same_k = paper is not None and paper.lag_steps == k
    left, first = found["relative_regret lag"], found["relative_regret lag_0"]
    cost = compare(
        f"relative regret of LAG@{k} ({where}), below {LOW_REGRET:g}",
        printed["lag"] if same_k else (paper and "low") or "",
        left,
        below=LOW_REGRET,
        unless=unless,
    )
    less = compare(
        f"relative regret of LAG@{k} minus that of LAG@0 ({where})",
        round(printed["lag"] - printed["lag_0"], 4) if same_k else (paper and "below 0") or "",
        left - first,
        below=0.0,
        unless=unless,
    )
    alike = ((left - first).dropna() == 0).all() and less.status != "not run"
    same = f"LAG@{k} and LAG@0 cost the same in every seed" if alike else ""
    lost = without(left, f"operator that LAG@{k} takes")
    no_more = f"LAG@{k} is not shown to cost less than LAG@0"
    return [
        doubted(cost, [lost, "" if unless or less.status == "shown" else no_more]),
        doubted(less, [lost, without(first, "operator that LAG@0 takes")], [same]),
    ]


def _top_claim(where: str, of_thesis: bool, found: pd.DataFrame, unless: str) -> Claim:
    """Returns in how many seeds LAG@0 takes a random block on top, as by luck it may."""
    item = f"share of seeds in which LAG@0 takes a random block on top ({where})"
    top, luck = found["picks_random_top"], 1 / float(found["operators"].min())
    known, statement = top.dropna(), 1.0 if of_thesis else ""
    lost = without(top, "operator that LAG@0 takes")
    if known.empty and len(top):
        return Claim(item, statement, "", None, "undecided", note=lost)
    share = float(known.mean()) if len(known) else ""
    return doubted(every(item, statement, known == 1, share, luck=luck, unless=unless), [lost])


def _transition_claim(where: str, paper: str, found: pd.DataFrame, unless: str) -> Claim:
    """Returns where the phases change, which is shown if they clearly do in every seed.

    At which step they do depends on the network, the batches and the learning rate. A seed whose
    early steps were not recorded, or are of equal losses, has no order to split.
    """
    known = found["split"].notna()
    changes = found.loc[known, "transition"]
    seen = changes.dropna()
    ours = f"in {len(seen)} of {len(changes)} seeds"
    ours += f", at {', '.join(f'{step:g}' for step in seen)}" if len(seen) else ""
    item = f"seeds in which the operators' order has two clear phases ({where}), leaving "
    item += f"{MOST_UNEXPLAINED:g} of the variance at most"
    lost = without(found["split"], "order of early steps to split")
    if changes.empty and len(found):
        return Claim(item, paper, "", None, "undecided", note=lost)
    claim = every(item, paper, changes.notna(), ours, unless=unless, spread=spread(seen))
    return doubted(claim, [lost])


def contrast_claims(config: ml_collections.ConfigDict, numbers: pd.DataFrame) -> list[Claim]:
    """Returns how much more the loss on growing tells where the rate decays, by seed."""
    claims = []
    for kind, found in numbers.groupby("kind", sort=False):
        table = found.pivot(index="seed", columns="schedule", values="initial_spearman")
        if {"constant", "cosine"} <= set(table):
            more = table["cosine"] - table["constant"]
            item = "Spearman of the loss on growing with the final one, cosine minus constant rate"
            claim = compare(f"{item} ({kind}), above 0", "", more, above=0.0)
            reasons = [few_operators(found), _sample_of(more)]
            lost = _lost_pairs(config, more, "correlation at both rates")
            claims.append(doubted(claim, [*lost, missing_operators(config, found)], reasons))
    return claims


def _sample_of(values: pd.Series) -> str:
    return no_sample(values.dropna().rename("value").reset_index(), ["value"])


def _lost_pairs(config: ml_collections.ConfigDict, values: pd.Series, what: str) -> Sequence[str]:
    return [missing_seeds(config, list(values.index)), without(values, what)]


def stacking_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns by how much adaptive stacking ends lower than last stacking, by seed."""
    claims = []
    paper = round(STACKING_LOSS["last"] - STACKING_LOSS["adaptive"], 4)
    for (kind, schedule), found in fine.groupby(SETTING, sort=False):
        table = found.pivot(index="seed", columns="strategy", values="final_loss")
        if {"last", "adaptive"} <= set(table):
            less = table["last"] - table["adaptive"]
            item = f"final loss of last minus that of adaptive stacking ({kind}, {schedule} rate)"
            claim = compare(item, paper, less, above=0.0)
            sample = no_sample(table.dropna().reset_index(), ["last", "adaptive"])
            lost = _lost_pairs(config, less, "loss of both strategies")
            claims.append(doubted(claim, lost, [sample]))
    return claims
