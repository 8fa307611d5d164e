"""When the signals are learned and missed: claims change where their thresholds are."""

import numpy as np
import pandas as pd
import pytest
from resnet_rows import configure, row

from lsa_jax.experiments.resnet.hierarchical.epoch_claims import epoch_claims


def test_epochs_are_known_to_the_distance_of_two_looks():
    """Of two seeds 12.7 errors of 0.7, and 1.96 of 4 / sqrt(6) beside it."""
    config = configure(**{"question": "epochs", "sweep.baselines": (), "sweep.seed": (0, 1)})
    seen = {"base_epoch": 5, "base_error": 0.1, "composite_error": 0.1}
    rows = [
        row("3resnet", "all", 0.1, seed=seed, composite_epoch=45 + seed, **seen) for seed in (0, 1)
    ]
    found = epoch_claims(config, pd.DataFrame(rows))[0]
    half = np.hypot(12.706 * np.sqrt(0.5) / np.sqrt(2), 1.96 * 4 / np.sqrt(6))
    assert (found.low, found.high) == pytest.approx((40.5 - half, 40.5 + half), rel=1e-3)
    one = epoch_claims(config, pd.DataFrame(rows[:1]))[0]
    assert one.status == "undecided" and one.low is None
    assert one.note == "1 of 2 runs failed or are not there; it would take 2 seeds or more"


def test_signals_are_missed_by_kernels_from_a_half_on_and_base_comes_first():
    config = configure(
        **{
            "question": "epochs",
            "num_test": 10_000,
            "sweep.limits": (("2layer", "ntk_infinite"),),
            "sweep.baselines": (),
            "sweep.seed": (0, 1),
        }
    )
    seen = {"base_epoch": 5, "composite_epoch": 6, "base_error": 0.1, "composite_error": 0.1}

    def found(seeds=((5, 6), (5, 7)), **kernel):
        rows = [
            row("3resnet", learner, 0.1, **seen | {"base_epoch": base, "composite_epoch": last})
            | {"seed": seed}
            for learner in ("all", "hidden")
            for seed, (base, last) in enumerate(seeds)
        ]
        missed = {"base_error": 0.45, "composite_error": 0.9} | kernel
        rows.append(row("2layer", "ntk_infinite", 9.0, **missed))
        result = epoch_claims(config, pd.DataFrame(rows))
        return [claim.status for claim in result if claim.status != "not run"]

    later = ((5, 15), (5, 16))
    assert found(later) == ["shown"] * 3
    assert found(later, composite_error=0.5) == ["shown", "shown", "undecided"]
    # Its error is 2 / sqrt(10,000) = 0.02: 0.04 of it on either side.
    assert found(later, composite_error=0.53)[2] == "undecided"
    assert found(later, composite_error=0.55)[2] == "shown"
    assert found(later, composite_error=0.45)[2] == "not shown"
    assert found(later, base_error=0.47)[2] == "undecided"
    assert found(((5, 4), (15, 6)))[:2] == ["undecided"] * 2
    assert found(((35, 15), (35, 16)))[:2] == ["not shown"] * 2
    assert found(((5, 15), (5, 15)))[:2] == ["undecided"] * 2
    assert found(((5, 6), (5, np.nan)))[:2] == ["not shown"] * 2


def test_base_comes_first_where_the_interval_is_above_no_epochs():
    """Of two seeds an epoch apart it reaches 7.1 on either side of the mean difference."""
    fields = {"question": "epochs", "sweep.series": (("3resnet", "all"),), "sweep.baselines": ()}
    seen = {"base_error": 0.1, "composite_error": 0.1}

    def found(*epochs):
        config = configure(**fields | {"sweep.seed": tuple(range(len(epochs)))})
        rows = [
            row("3resnet", "all", 0.1, seed=seed, base_epoch=base, composite_epoch=last, **seen)
            for seed, (base, last) in enumerate(epochs)
        ]
        (claim,) = epoch_claims(config, pd.DataFrame(rows))
        return claim.status, claim.ours

    assert found((1, 8), (2, 10)) == ("shown", "1.5 / 9; 7.5 later on average")
    assert found((1, 7), (2, 9)) == ("undecided", "1.5 / 8; 6.5 later on average")
    assert found((9, 2), (9, 1)) == ("not shown", "9 / 1.5; -7.5 later on average")
    assert found((35, 15), (35, 15)) == ("undecided", "35 / 15; -20 later on average")
    assert found((1, 90), (2, 100), (30, 80)) == ("shown", "2 / 90; 79 later on average")


def test_what_the_interval_is_of_stands_beside_the_medians():
    """Its ends are about the mean of 130, 130 and 60, and not about the medians' 130."""
    fields = {"question": "epochs", "watch_every": 10, "sweep.baselines": ()}
    config = configure(**fields | {"sweep.series": (("3resnet", "all"),), "sweep.seed": (0, 1, 2)})
    seen = {"base_epoch": 10, "base_error": 0.1, "composite_error": 0.1}
    rows = [
        row("3resnet", "all", 0.1, seed=seed, composite_epoch=epoch, **seen)
        for seed, epoch in enumerate((140, 140, 70))
    ]
    (claim,) = epoch_claims(config, pd.DataFrame(rows))
    assert (claim.low + claim.high) / 2 == pytest.approx(106.67, abs=0.1)
    assert claim.ours == "10 / 140; 107 later on average"


def test_what_is_missed_at_the_end_is_claimed_of_all_but_the_resnet_and_of_every_seed():
    nets = ("3resnet", "all"), ("3resnet", "ntk"), ("3layer", "all")
    fields = {"question": "epochs", "num_test": 10_000, "sweep.series": nets}
    config = configure(**fields | {"sweep.baselines": (), "sweep.seed": (0, 1)})

    def found(missed=(0.9, 0.91), of_resnet=(0.1, 0.1), base=(0.1, 0.1), seeds=(0, 1)):
        rows = [
            row(*net, 0.1, seed=seed, composite_epoch=35 + seed, base_epoch=5)
            | {"composite_error": error, "base_error": 0.1 if net == nets[0] else base[seed]}
            for net in nets
            for seed, error in enumerate(of_resnet if net == nets[0] else missed)
            if net == nets[0] or seed in seeds
        ]
        first, *others = epoch_claims(config, pd.DataFrame(rows))
        assert first.item == "epochs to half of the base / of the composite signal, 3resnet(all)"
        named = [claim.item.split("the end, ")[1] for claim in others]
        assert named == ["3resnet(ntk)", "3layer(all)"]
        assert others[0]._replace(item="") == others[1]._replace(item="")
        return others[0].status, others[0].note

    assert found() == ("shown", "")
    assert found(missed=(0.3, 0.31)) == ("not shown", "")
    # A share is known to 0.04 on either side.
    no_resnet = ("undecided", "the ResNet is not shown to learn")
    for of_resnet, expected in (
        ((0.45, 0.1), ("shown", "")),
        ((0.47, 0.1), no_resnet),
        ((0.1, 0.9), no_resnet),
        ((), no_resnet),
    ):
        assert found(of_resnet=of_resnet) == expected
    no_base = ("undecided", "it does not learn the base signal either")
    assert found(base=(0.1, 0.9)) == no_base
    assert found(seeds=(0,)) == ("undecided", "1 of 2 runs failed or are not there")
    for missed in (0.9, 0.3):
        assert found(missed=(missed, missed)) == ("undecided", "all of 2 seeds are equal")
