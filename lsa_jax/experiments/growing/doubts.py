"""What speaks against relying on the numbers of a few operators, beside what does of any seeds.

Three operators or fewer decide nothing: any three are in the order of their final losses once in
six times by luck. What is left where operators failed, or where equal losses have no order, shows
nothing.
"""

from collections.abc import Sequence

import ml_collections
import pandas as pd

FEWEST_OPERATORS = 4
# What differs between seeds that drew anything; ranks may well be the same.
DRAWN = ["base_loss", "span"]


def missing_seeds(config: ml_collections.ConfigDict, seeds: Sequence[int] | pd.Series) -> str:
    """Names the seeds that a sweep asks for and that have no numbers; empty of none."""
    there, asked = set(seeds), config.sweep.seed
    lost = [f"{seed}" for seed in asked if seed not in there]
    return f"{len(lost)} of {len(asked)} seeds have no numbers: {', '.join(lost)}" if lost else ""


def missing_operators(config: ml_collections.ConfigDict, numbers: pd.DataFrame) -> str:
    """Names the seeds of which not all operators came to their end; empty of none."""
    axes = config.sweep
    asked = len(axes.index) * len(axes.block_size) * len(axes.source)
    few = numbers[numbers["operators"] < asked]
    pairs = zip(few["seed"], few["operators"], strict=True)
    named = [f"seed {seed} has {count:g} of {asked} operators" for seed, count in pairs]
    return "; ".join(named)


def few_operators(numbers: pd.DataFrame) -> str:
    """Says that there are too few operators to decide anything; empty where there are not."""
    few = (numbers["operators"] < FEWEST_OPERATORS).any()
    return f"it would take {FEWEST_OPERATORS} operators or more" if few else ""


def without(values: pd.Series, what: str) -> str:
    """Says in how many seeds something has no number; empty if in none."""
    lost = int(values.isna().sum())
    return f"{lost} of {len(values)} seeds have no {what}" if lost else ""
