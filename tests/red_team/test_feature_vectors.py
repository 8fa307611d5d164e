"""Made-up results of hidden vectors as labels, whose numbers the paper does not print."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning.learning import report as learning
from lsa_jax.experiments.feature_learning.learning import settings
from lsa_jax.experiments.feature_learning.learning.settings import rate_of
from lsa_jax.sweep.variants import set_fields

START = 0.12  # the cosine of the nearest of some hundred random neurons
NOISE = 1e-3 * np.array([0.0, 1.0, -1.0, 0.5, -0.5])


def vectors(accuracy, *, cosine=0.995, share=0.5, start=(START, 0.0), seeds=5, two="two_step"):
    """Returns the claims on learners with the accuracies given, and a network's neurons.

    Args:
        accuracy: of a learner, noise from seed to seed apart.
        cosine: of the network's nearest neuron.
        share: of its neurons that are near, one a seed or the same.
        start: both of random features.
        seeds: that have a result, of five.
        two: which classifier Two Step has.
    """
    fields = {"data.labels": "vectors", "sweep.unstructured_learner": ()}
    config = set_fields(settings.default_config(), fields)
    learners = ("network", "ntk", "random_features", "one_step", "one_step_exact", two)
    rows = []
    for learner in learners:
        near, most = start if learner == "random_features" else (cosine, share)
        exact = learner == "one_step_exact"
        for first_rate in (config.first_rate, 10.0) if exact else (config.first_rate,):
            found = pd.DataFrame({"test_accuracy": accuracy(learner) + NOISE, "share_near": most})
            own = {"learner": learner, "first_rate": first_rate, "leftover": config.leftover}
            own["rate"] = first_rate if exact else rate_of(config, learner)
            found["cosine"] = near + 0.1 * NOISE
            found["test_accuracy"] = found["test_accuracy"].clip(upper=1)
            rows.append(found.assign(seed=found.index, **own)[:seeds])
    results = pd.concat(rows, ignore_index=True).assign(structured=True, status="ok", id="")
    return learning.make_claims(config, results)


def second(claims):
    (claim,) = [claim for claim in claims if "every rate" in claim.item]
    return claim


@pytest.mark.parametrize("two", ["two_step", "two_step_exact"])
def test_a_second_step_is_needed_where_it_is_shown_to_suffice(two):
    for two_step, status in ((0.5, "undecided"), (0.78, "undecided"), (1.0, "shown")):
        accuracy = {two: two_step, "network": 1.0}
        claim = second(vectors(lambda learner, of=accuracy: of.get(learner, 0.6), two=two))
        assert claim.status == status
        assert ("Two Step is not shown to be above 99 %" in claim.note) == (two_step < 1)
    # Of learners that guess nothing tells what they lack.
    assert second(vectors(lambda learner: 0.5, two=two)).status == "undecided"
    # Where one step suffices none is needed, whatever the second does.
    accuracy = {"one_step_exact": 1.0}
    claim = second(vectors(lambda learner: accuracy.get(learner, 0.6), two=two))
    assert claim.status == "not shown"


def clusters(**columns):
    """Returns the statuses of the share of neurons that turn and of the nearest one's cosine."""
    claims = vectors(lambda learner: 1.0 if learner == "network" else 0.7, **columns)
    own = [claim for claim in claims if "figure 15" in str(claim.paper)]
    return [claim.status for claim in own]


def test_neurons_form_clusters_where_many_turn_and_one_is_near():
    assert clusters() == ["shown", "shown"]
    # Neurons that stay where they were drawn, far from the truth or near it.
    assert clusters(cosine=START, share=0.0) == ["not shown", "not shown"]
    assert clusters(start=(0.995, 0.5)) == ["not shown", "undecided"]
    # One of some hundred neurons turns; many turn, and one in four at most.
    assert clusters(share=0.002) == ["not shown", "undecided"]
    assert clusters(share=0.25) == ["not shown", "undecided"]
    assert clusters(share=[0.4, 0.2, 0.3, 0.1, 0.5]) == ["undecided", "undecided"]
    assert clusters(cosine=0.9) == ["shown", "not shown"]
    # Seeds that are not there.
    assert clusters(seeds=3) == ["undecided", "undecided"]
    assert clusters(share=[0.5, 0.5, np.nan, np.nan, np.nan]) == ["undecided", "undecided"]


def test_without_the_neurons_at_the_start_none_are_known_to_turn():
    config = set_fields(settings.default_config(), {"data.labels": "vectors"})
    rows = pd.DataFrame({"cosine": 0.995 + NOISE, "share_near": 0.5, "test_accuracy": 1 - NOISE})
    own = {"learner": "network", "structured": True, "status": "ok", "id": "", "rate": config.rate}
    claims = learning.make_claims(config, rows.assign(seed=rows.index, **own))
    share, near = [claim for claim in claims if "figure 15" in str(claim.paper)]
    assert (share.status, near.status) == ("not run", "undecided")


def test_neither_shares_nor_cosines_have_ends_that_none_can_have():
    apart = np.array([0.0, 0.9, 0.0, 0.0, 0.0])
    claims = vectors(lambda learner: 0.9, cosine=apart, share=apart, seeds=2)
    for words in ("share of neurons", "cosine of the nearest neuron, Network"):
        (claim,) = [claim for claim in claims if claim.item.startswith(words)]
        assert claim.ours == pytest.approx(0.45, abs=1e-3)
        assert (claim.low, claim.high) == (-1.0, 1.0)
