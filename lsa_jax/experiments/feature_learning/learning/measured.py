"""Accuracies and gains that the paper says nothing of, with their intervals."""

import pandas as pd

from lsa_jax.reporting import claims as rule
from lsa_jax.reporting import intervals
from lsa_jax.reporting.report import Claim


def _accuracy(rows: pd.DataFrame) -> pd.Series:
    return 100 * rows.set_index("seed")["test_accuracy"]


def measured_accuracy(item: str, paper: str | float, percent: pd.Series, num_test: int) -> Claim:
    """Returns an accuracy in percent with its interval, over seeds and test examples."""
    error = 100 * intervals.binomial_error(percent.mean() / 100, num_test)
    claim = rule.measured(item, paper, round(percent.mean(), 2), percent, error)
    return claim.within(0.0, 100.0)


def measured_gain(item: str, before: pd.DataFrame, after: pd.DataFrame, num_test: int) -> Claim:
    """Returns by how many points the accuracy of some seeds is above that of the same before."""
    points = (_accuracy(after) - _accuracy(before)).dropna()
    shares = [rows["test_accuracy"].mean() for rows in (before, after)]
    error = 100 * intervals.difference_error(*shares, num_test)
    return rule.measured(item, "", round(points.mean(), 2), points, error)
