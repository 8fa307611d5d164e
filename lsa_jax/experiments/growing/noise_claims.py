"""By how much operators' final losses differ, against the noise of one seed.

Ours: the thesis has one run of each operator, which cannot tell.
"""

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.growing import measures
from lsa_jax.experiments.growing.doubts import few_operators, missing_operators, missing_seeds
from lsa_jax.reporting.claims import decide, fewest_seeds
from lsa_jax.reporting.doubts import doubted
from lsa_jax.reporting.report import Claim

# Operators that differ by no more than a seed's noise are not told apart by one run of each.
NOISE = 1.0


def noise_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns by how much operators' final losses differ, against the noise of one seed.

    Where they do not, which operator is best is chance, and so is what foretells it. Operators
    that are missing in a seed are left out, and what is left then shows nothing.

    Args:
        config: of the sweep.
        fine: its points that did not fail.
    """
    claims = []
    for (kind, schedule), found in fine.groupby(["kind", "schedule"], sort=False):
        losses = found.pivot_table(
            index="seed", columns=["index", "block_size", "source"], values="final_loss"
        )
        counts = losses.notna().sum(axis=1).rename("operators").reset_index()
        against = [missing_seeds(config, counts["seed"]), missing_operators(config, counts)]
        losses = losses.dropna(axis="columns")
        differ = measures.spread_over_noise(losses.to_numpy(float))
        item = "how far operators' final losses differ, in standard deviations of a seed's noise "
        item += f"({kind}, {schedule} rate), above {NOISE:g}"
        claim = _noise_claim(item, differ, *losses.shape)
        few = few_operators(counts.assign(operators=losses.shape[1]))
        claims.append(doubted(claim, against, [few]))
    return claims


def _noise_claim(item: str, found: measures.Spread, seeds: int, operators: int) -> Claim:
    """Decides whether operators differ by more than `NOISE`, and says how many seeds it takes."""
    if np.isnan(found.ratio):
        note = "it would take 2 seeds or more" if seeds < 2 else "nothing differs"
        return Claim(item, "", "", None, "undecided", note=note)
    status = decide(found.low, found.high, above=NOISE, below=np.inf)
    note = ""
    if status == "undecided":
        note = f"it would take {_seeds_that_decide(found.ratio, seeds, operators)}"
    ends = (float(f"{end:.4g}") for end in (found.low, found.high))
    return Claim(item, "", round(found.ratio, 4), None, status, *ends, note)


def _seeds_that_decide(ratio: float, seeds: int, operators: int) -> str:
    """Returns, in words, the fewest seeds that would decide if the ratio stays."""

    def decides(count: int) -> bool:
        found = measures.spread_of(1 + count * ratio**2, count, operators)
        return decide(found.low, found.high, above=NOISE, below=np.inf) != "undecided"

    return fewest_seeds(seeds, decides)
