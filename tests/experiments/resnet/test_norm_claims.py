"""Networks of small norm, by hand and by SGD: claims change where their thresholds are."""

import json

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.resnet.minimal_norm import settings
from lsa_jax.experiments.resnet.minimal_norm.report import make_report
from lsa_jax.sweep.variants import set_fields

HAND = ((9.7, 0.11), (12.5, 0.03), (13.8, 0.01))
FAR = (0.05, 1.0, 45.0)
UNMET = "condition not met"


def statuses(workdir, *found, hand=HAND, d=40, widths=(100_000,), seeds=(0, 1), **fields):
    """Returns those of claims on (training error, test error, norm) of every seed's candidates."""
    rows = [
        {"part": "construction", "width": 200, "relative_norm": norm, "test_error": error}
        | {"penalty": penalty, "id": f"hand{penalty}", "status": "ok"}
        for penalty, (norm, error) in enumerate(hand)
    ]
    names = ("train_error", "test_error", "relative_norm")
    for seed in seeds:
        folder = workdir / "runs" / f"search{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        tried = [
            dict(zip(names, np.multiply(one, 1 + seed / 1e5).tolist(), strict=True))
            | {"learning_rate": 1.0, "weight_decay": 1e-5}
            for one in found
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tried))
        least = min((one["test_error"] for one in tried), default=np.nan)
        rows.append(
            {"part": "search", "width": widths[-1], "seed": seed, "test_error": least}
            | {"id": folder.name, "status": "ok" if found else "failed"}
        )
    axes = {"sweep.width": widths, "sweep.penalty": tuple(map(float, range(len(hand))))}
    axes |= {"d": d, "sweep.hand_width": (200,), "sweep.seed": (0, 1), **fields}
    config = set_fields(settings.default_config(), axes)
    claims = make_report(config, pd.DataFrame(rows), workdir).claims
    order = ("9.7", "12.5", "13.8", "by SGD", "as of no small", "least |W|")
    by_word = {
        next(word for word in reversed(order) if word in claim.item): claim.status
        for claim in claims
    }
    return [by_word[word] for word in order if word in by_word]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(0.11, 0.70, 19.5)], ["shown", "shown", "shown"]),
        ([(0.11, 0.68, 19.5)], ["not shown", "shown", "shown"]),
        ([(0.11, 0.29, 19.3)], ["not shown", "not shown", "not shown"]),
        ([(0.11, 0.31, 19.5), (0.01, 0.5, 19.3)], ["not shown", "shown", "not shown"]),
        ([(0.11, 0.70, 19.5), (0.13, 0.8, 9.0)], ["shown", "shown", "shown"]),
        ([(0.13, 0.70, 19.5), (0.2, 0.8, 19.5)], [UNMET] * 3),
    ],
)
def test_sgd_finds_no_small_error_and_no_norm_below_twice_the_one_by_hand(
    tmp_path, found, expected
):
    assert statuses(tmp_path, *found)[3:] == expected


def test_smaller_searches_than_the_papers_show_nothing_and_refute_what_they_find(tmp_path):
    assert statuses(tmp_path / "a", FAR, widths=(200,))[3:] == [UNMET] * 3
    found = statuses(tmp_path / "b", (0.05, 0.1, 15.0), widths=(200,))
    assert found[3:] == ["not shown"] * 3
    assert statuses(tmp_path / "c", FAR, seeds=(0,))[3:] == [UNMET] * 3  # of two that are planned
    one = statuses(tmp_path / "d", FAR, seeds=(0,), **{"sweep.seed": (0,)})
    assert one[3:] == ["shown of one seed"] * 3
    assert len(statuses(tmp_path / "e", FAR, d=12, widths=(200,))) == 5  # no number of the paper


def test_a_norm_is_small_beside_a_network_by_hand(tmp_path):
    assert statuses(tmp_path / "a", FAR, hand=HAND[1:])[3:] == ["shown", "shown", UNMET]


@pytest.mark.parametrize(
    ("error", "status"), [(0.1199, "shown"), (0.1201, "not shown"), (None, "not run")]
)
def test_errors_by_hand_are_exact(tmp_path, error, status):
    hand = [(9.3, error)] if error else []
    hand.append((9.2, 0.01))  # not within 5 % of 9.7
    assert statuses(tmp_path, FAR, hand=hand)[0] == status
