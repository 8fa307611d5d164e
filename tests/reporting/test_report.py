"""How claims are counted, and where their intervals end."""

import pytest

from lsa_jax.reporting.report import Row
from lsa_jax.reporting.reproduction import counts


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        (["shown", "not run", "not shown"], "1 of 2 shown, 1 not run"),
        (["measured", "shown", "measured"], "1 of 1 shown, 2 measured"),
        (["measured", "undecided"], "1 undecided, 1 measured"),
        ([], "no claims"),
    ],
)
def test_what_was_measured_counts_neither_as_shown_nor_as_not_shown(statuses, words):
    assert counts([{"status": status} for status in statuses]) == words


def test_an_interval_ends_where_its_number_does_and_one_that_is_not_there_stays_away():
    def claim(low, high):
        return Row("share", "", 0.5, None, "undecided", low, high, "more seeds")

    assert claim(-0.5, 1.5).within(0.0, 1.0) == claim(0.0, 1.0)
    assert claim(0.2, 1.5).within(0.0, 1.0) == claim(0.2, 1.0)
    assert claim(0.2, 0.8).within(0.0, 1.0) == claim(0.2, 0.8)
    assert claim(None, None).within(0.0, 1.0) == claim(None, None)
