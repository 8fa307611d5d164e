"""What speaks against numbers of a few seeds and operators, in its words."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.growing import settings
from lsa_jax.experiments.growing.doubts import (
    few_operators,
    missing_operators,
    missing_seeds,
    without,
)
from lsa_jax.sweep.variants import set_fields

CONFIG = set_fields(settings.default_config(), {"sweep.seed": (3, 5, 8)})  # of 12 operators


def numbers(*operators):
    seeds = (3, 5, 8)[: len(operators)]
    return pd.DataFrame({"seed": seeds, "operators": operators, "span": np.arange(len(seeds))})


def test_seeds_and_operators_that_are_not_there_are_named():
    assert missing_seeds(CONFIG, [8, 3, 5]) == ""
    assert missing_seeds(CONFIG, pd.Series([5])) == "2 of 3 seeds have no numbers: 3, 8"
    assert missing_operators(CONFIG, numbers(12, 12, 13)) == ""
    found = missing_operators(CONFIG, numbers(12, 11, 3))
    assert found == "seed 5 has 11 of 12 operators; seed 8 has 3 of 12 operators"


def test_three_operators_of_any_seed_are_too_few():
    assert few_operators(numbers(4, 12, 4)) == ""
    assert few_operators(numbers(12, 3, 12)) == "it would take 4 operators or more"


def test_seeds_without_a_number_are_counted():
    assert without(pd.Series([0.0, 1.0]), "order") == ""
    assert without(pd.Series([0.0, np.nan, np.nan]), "order") == "2 of 3 seeds have no order"
