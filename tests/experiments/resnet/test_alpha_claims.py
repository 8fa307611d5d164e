"""How the error falls with alpha: claims change at alpha^4, and nowhere else."""

import numpy as np
import pandas as pd
import pytest
from resnet_rows import configure, row

from lsa_jax.experiments.resnet.hierarchical.alpha_claims import alpha_claims


def of_alphas(error, seeds=(0, 1, 2), sizes=(1000,)):
    """Returns the ResNet's errors as a function of (alpha, seed)."""
    rows = [
        row("3resnet", "all", error(alpha, seed) * (1 + seed / 1e4), alpha=alpha, seed=seed)
        | {"num_train": size}
        for alpha in (0.15, 0.3, 0.6)
        for seed in seeds
        for size in sizes
    ]
    fields = {"sweep.alpha": (0.15, 0.3, 0.6), "sweep.num_train": sizes, "sweep.seed": seeds}
    config = configure(**fields)
    return alpha_claims(config, pd.DataFrame(rows))


@pytest.mark.parametrize(("factor", "status"), [(0.99, "shown"), (1.01, "not shown")])
def test_an_error_of_order_alpha_to_the_fourth_is_below_it_at_every_alpha(factor, status):
    for worst in (0.15, 0.3, 0.6):
        found = of_alphas(lambda a, s, worst=worst: (factor if a == worst else 0.5) * a**4)
        assert (found[0].ours, found[0].status) == (pytest.approx(factor, rel=1e-3), status)
    assert "N = 1,000" in found[0].item and "alpha = 0.15, 0.3, 0.6" in found[0].item


def test_seeds_on_either_side_of_alpha_to_the_fourth_leave_it_undecided():
    found = of_alphas(lambda alpha, seed: alpha**4 * (0.5, 0.9, 1.5)[seed])
    assert found[0].status == "undecided" and found[0].ours == pytest.approx(0.9, rel=1e-3)


def test_what_is_left_of_g_is_the_error_over_that_of_not_knowing_it():
    found = of_alphas(lambda alpha, seed: 20 * alpha**4 * (1 + seed / 100))
    for claim, alpha in zip(found[1:4], (0.15, 0.3, 0.6), strict=True):
        assert claim.status == "measured" and f"alpha = {alpha:g}" in claim.item
        assert claim.ours == pytest.approx(20 * alpha**2 / 15 * 1.01, rel=1e-3)


def test_exponents_are_those_between_neighbouring_alphas():
    found = of_alphas(lambda alpha, seed: max(alpha, 0.3) ** (5 + seed / 10))[4:]
    assert [claim.status for claim in found] == ["measured"] * 2
    assert ["from 0.15 to 0.3" in claim.item for claim in found] == [True, False]
    assert [claim.ours for claim in found] == [0.0, 5.1]
    # Three slopes 0.1 apart, and test examples that tell an error to 0.014 %.
    half = 4.303 * 0.1 / np.sqrt(3)
    assert (found[1].low, found[1].high) == pytest.approx((5.1 - half, 5.1 + half), rel=1e-3)


def test_of_one_seed_the_test_examples_leave_an_error_of_the_exponent():
    """sqrt(2 / n) of the logarithm of either error, over log 2."""
    config = configure(**{"sweep.alpha": (0.3, 0.6), "num_test": 200, "num_train": 500})
    rows = [row("3resnet", "all", a**4, alpha=a) for a in (0.3, 0.6)]
    found = alpha_claims(config, pd.DataFrame(rows))[-1]
    half = 1.96 * 0.1 * np.sqrt(2) / np.log(2)
    assert (found.low, found.high) == pytest.approx((4 - half, 4 + half), rel=1e-3)


def test_each_n_has_its_claims_and_a_missing_alpha_none():
    found = of_alphas(lambda alpha, seed: alpha**4, sizes=(1000, 4000))
    assert ["N = 1,000" in claim.item for claim in found] == [True] * 6 + [False] * 6
    config = configure(**{"sweep.alpha": (0.15, 0.3), "sweep.seed": (0, 1)})
    rows = [row("3resnet", "all", 1e-3 * (1 + s), alpha=0.3, seed=s) for s in (0, 1)]
    found = alpha_claims(config, pd.DataFrame(rows))
    assert [claim.status for claim in found] == ["undecided", "not run", "measured", "not run"]
    assert found[0].note.startswith("2 of 4 runs failed or are not there")


def test_other_series_and_widths_have_no_part_in_the_claims_of_alpha():
    alphas = (0.3, 0.6)
    fields = {"sweep.alpha": alphas, "sweep.width": (200, 500), "num_train": 500}
    rows = [
        row("3resnet", "all", 0.5 * a**4 * w / 200, alpha=a, width=w)
        for a in alphas
        for w in (200, 500)
    ]
    rows += [row("3layer", "all", 9.0, alpha=a) for a in alphas]
    found = alpha_claims(configure(**fields), pd.DataFrame(rows))
    assert [claim.item.endswith(", m = 200") for claim in (found[0], found[4])] == [True, False]
    assert [found[0].ours, found[4].ours] == [pytest.approx(0.5), pytest.approx(1.25)]
    assert [found[0].status, found[4].status] == ["shown", "not shown"]
