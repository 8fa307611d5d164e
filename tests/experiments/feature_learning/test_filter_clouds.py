"""Filters of a ResNet: what is measured of them by block, and the tables, by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning.filter_clouds import experiment, report, settings
from lsa_jax.experiments.feature_learning.numbers import FILTER_CLUSTERS, GRADIENT_COSINES
from lsa_jax.sweep.variants import set_fields

PAIRS = ("v1_v2", "v1_v3", "v2_v3")


def configure(**fields):
    named = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(settings.default_config(), {"epochs": (3, 20), **named})


@pytest.fixture
def network(monkeypatch):
    """Returns stages of a network with 8 filters a block, and gradients of three thirds."""
    rng = np.random.default_rng(0)
    start = [rng.normal(size=(1, 1, 5, 8)) for _ in range(4)]
    early = [s + rng.normal(size=s.shape) for s in start]
    end = [e + 0.1 * rng.normal(size=e.shape) for e in early]
    monkeypatch.setattr(experiment, "last_filters", lambda params, block: params[block])
    gradients = [rng.normal(size=(3, 5, 8)) for _ in range(4)]
    return [start, early, end], gradients


def test_directions_turn_by_one_minus_their_mean_cosine_from_picture_to_picture(network):
    stages, gradients = network
    metrics, pictures = experiment._measure(configure(), stages, gradients)
    for block in range(4):
        for (first, before), (last, after) in (
            ((0, stages[0]), (3, stages[1])),
            ((3, stages[1]), (20, stages[2])),
        ):
            a, b = (part[block].reshape(5, 8) for part in (before, after))
            cosines = [
                a[:, f] @ b[:, f] / np.linalg.norm(a[:, f]) / np.linalg.norm(b[:, f])
                for f in range(8)
            ]
            found = metrics[f"block{block + 1}_moved_{first}_{last}"]
            assert found == pytest.approx(1 - np.mean(cosines))
    assert [(row["block"], row["picture"]) for row in pictures] == [
        (block, epoch) for block in (1, 2, 3, 4) for epoch in (0, 3, 20)
    ]


def test_clusters_are_those_of_the_end_and_the_gradients_those_of_their_nearest_filter(network):
    stages, gradients = network
    metrics, pictures = experiment._measure(configure(near_share=0.25), stages, gradients)
    rows = stages[2][3].reshape(5, 8).T
    _, members, measured = experiment.nearest_clusters(rows, 0.25)
    _, _, untrained = experiment.nearest_clusters(stages[0][3].reshape(5, 8).T, 0.25)
    assert metrics["block4_centres_cosine"] == measured["centres_cosine"]
    assert metrics["block4_start_centres_cosine"] == untrained["centres_cosine"]
    own = experiment.gradient_cosines(gradients[3][:, :, members[0][0]])
    assert {name: metrics[name] for name in own} == own
    nearest = pictures[-1]["nearest"]
    assert sorted(np.flatnonzero(nearest == 0)) == sorted(members[0])
    assert sorted(np.flatnonzero(nearest == 1)) == sorted(members[1])
    assert (nearest == -1).sum() == 8 - len(set(members[0]) | set(members[1]))


def row(filters=128, seed=0, **values):
    """Returns a network that learned, with the paper's cosines of a width."""
    found = {"id": f"filters={filters}-seed={seed}", "filters": filters, "seed": seed}
    found |= {"status": "ok", "test_accuracy": 0.95}
    for block, (first, second, centres) in enumerate(FILTER_CLUSTERS[128], start=1):
        found |= {f"block{block}_first_cosine": first, f"block{block}_second_cosine": second}
        found |= {f"block{block}_centres_cosine": centres}
        found |= {f"block{block}_start_centres_cosine": -0.25}
        found |= {f"block{block}_moved_0_3": 0.5, f"block{block}_moved_3_20": 0.25}
    return found | GRADIENT_COSINES[128] | values


def test_tables_have_a_line_a_block_and_pair_beside_the_papers_where_there_is_one(tmp_path):
    rows = [
        row(),
        row(seed=1, block4_centres_cosine=-0.5, v1_v2=0.5),
        row(32),
        row(64, 0, status="failed"),
    ]
    for one in rows:
        folder = tmp_path / "runs" / one["id"]
        folder.mkdir(parents=True)
        lines = [{"step": 0, "test_loss": 1.0}, {"picture": 3, "block": 1}]
        (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    found = report.make_report(configure(), pd.DataFrame(rows), tmp_path)
    (_, accuracy), (_, clusters), (_, gradients) = found.tables
    assert accuracy["filters"].tolist() == [32, 128]
    assert clusters["network"].tolist() == ["ResNet(32)"] * 4 + ["ResNet(128)"] * 4
    last = clusters.iloc[-1]
    assert last["centres cosine, paper"] == "-0.9074" and last["first cosine, paper"] == "0.5584"
    assert last["centres cosine, ours"] == "-0.7037 ± 0.288"
    assert last["centres cosine, untrained"] == "-0.2500 ± 0.000"
    assert clusters.iloc[0]["centres cosine, paper"] == ""  # of no width of the paper's
    pairs = gradients[gradients["network"] == "ResNet(128)"].set_index("")
    assert pairs.loc["cos(v1, v2)"].tolist()[1:] == ["0.7454", "0.6227 ± 0.174"]
    assert set(found.figures) == {"filters_32", "filters_128"}
    assert found.extra_tables["curves"]["test_loss"].tolist() == [1.0] * 3


def claims_of(rows, **fields):
    return {c.item: c for c in report.make_claims(configure(**fields), pd.DataFrame(rows))}


def test_another_width_has_the_papers_least_pair_as_its_bound_and_none_of_its_numbers():
    assert report._pair_bound(128) == 0.5083 and report._pair_bound(256) == 0.6919
    assert report._pair_bound(32) == 0.5083  # the least of both widths
    found = claims_of([row(32, seed) for seed in (0, 1, 2)], data__num_test=2000)
    assert len(found) == 3 and {claim.status for claim in found.values()} == {"shown"}
    turn = found["mean turn (1 - cosine) up to epoch 3 minus from there to 20, ResNet(32)"]
    assert float(turn.ours) == pytest.approx(0.25)
    apart = found[
        "cosine of the two centres, untrained minus trained, mean over blocks, ResNet(32)"
    ]
    centres = [cosines[2] for cosines in FILTER_CLUSTERS[128]]
    assert float(apart.ours) == pytest.approx(-0.25 - np.mean(centres), abs=1e-4)
    pairs = [GRADIENT_COSINES[128][pair] for pair in PAIRS]
    (agree,) = [claim for item, claim in found.items() if "mean gradients" in item]
    assert float(agree.ours) == pytest.approx(np.mean(pairs), abs=1e-4)


def test_a_network_that_guesses_shows_nothing_and_one_that_failed_was_not_run():
    found = claims_of([row(32, seed, test_accuracy=0.5) for seed in (0, 1, 2)])
    assert {claim.status for claim in found.values()} == {"undecided"}
    (gone,) = claims_of([row(32, 0, status="failed")]).values()
    assert gone.status == "not run"
    # One epoch alone has no later turn to be compared with.
    assert len(claims_of([row(32, 0, block1_moved_0_3=1.0)], epochs=(3,))) == 2
