"""When a difference between seeds counts as shown, and how claims are counted."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.reporting.report import exceeds
from lsa_jax.reporting.reproduction import counts


@pytest.mark.parametrize(
    "values, bound, shown",
    [
        # Mean 2, standard error 0.33.
        ([1, 1, 1, 3, 3, 3, 2, 2], 1.3, True),
        ([1, 1, 1, 3, 3, 3, 2, 2], 1.4, False),
        ([0, 0, 4, 4], 0.0, False),  # mean 2, standard error 1.15
        ([0, 0, 4, 4, np.nan], -0.5, True),
        ([0.1], 0.0, True),  # one seed speaks for itself
        ([0.0], 0.0, False),
        ([np.nan], -1.0, False),
        ([], -1.0, False),
    ],
)
def test_a_difference_is_shown_beyond_twice_its_standard_error(values, bound, shown):
    assert exceeds(pd.Series(values, dtype=float), bound) is shown


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        (["shown", "not run", "not shown"], "1 of 2 shown, 1 not run"),
        (["measured", "shown", "measured"], "1 of 1 shown, 2 measured"),
        (["measured"], "1 measured"),
        ([], "no claims"),
    ],
)
def test_what_was_measured_counts_neither_as_shown_nor_as_not_shown(statuses, words):
    assert counts([{"status": status} for status in statuses]) == words
