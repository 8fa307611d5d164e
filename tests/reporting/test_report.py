"""How claims are counted."""

import pytest

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
