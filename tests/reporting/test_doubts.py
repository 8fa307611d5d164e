"""A claim is doubted where it is decided and something speaks against it."""

import numpy as np

from lsa_jax.reporting import doubts
from lsa_jax.reporting.report import Claim


def claim(status, note=""):
    return Claim("an item", "above 0", 1.0, None, status, note=note)


def test_thirty_test_examples_are_enough():
    assert doubts.few_examples(30) == doubts.few_examples(np.inf) == ""
    assert doubts.few_examples(29) == "29 test examples are too few"


def test_only_what_is_decided_is_doubted_and_only_for_a_reason():
    for status in ("not run", "measured"):
        assert doubts.undecided(claim(status), "why", when=True) == claim(status)
    assert doubts.undecided(claim("shown"), "") == claim("shown")
    assert doubts.undecided(claim("shown"), "why") == claim("undecided", "why")
    assert doubts.undecided(claim("not shown"), "why") == claim("not shown")
    assert doubts.undecided(claim("not shown"), "why", when=True) == claim("undecided", "why")
