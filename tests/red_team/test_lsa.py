"""Made-up results of LSA's other experiments show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lsa.activation_sparsity import report as sparsity
from lsa_jax.experiments.lsa.kernel_bound import report as kernel_bound


def activity(changes, accuracy=0.9):
    """Returns the claims on activity that changes by so much, by seed."""
    rows = [
        {"noise": 0.0, "seed": seed, "epoch": epoch, "layer": layer, "active_percent": 50 + of}
        for layer in ("mean of the layers", "ReLU 1")
        for seed, change in enumerate(changes)
        for epoch, of in ((1, 0.0), (2, change))
    ]
    results = pd.DataFrame({"noise": 0.0, "test_accuracy": [accuracy], "status": "ok"})
    return sparsity.make_claims(pd.DataFrame(rows), results)


def test_activity_that_falls_by_noise_or_of_a_network_that_guesses_shows_nothing(nothing_shown):
    nothing_shown(activity([-5.0, 4.0, -3.0, 3.0, -1.0]))
    nothing_shown(activity([-0.1]))
    nothing_shown(activity([0.0, 0.0, 0.0]))
    nothing_shown(activity([5.0, 5.5, 6.0]))
    nothing_shown(activity([-5.0, -5.5, -6.0], accuracy=0.1))


def errors(kernel, network):
    rows = [
        {"learner": learner, "k": 100, "m": 1, "test_error": error, "status": "ok"}
        for learner, found in (("kernel", kernel), ("network", network))
        for error in found
    ]
    return kernel_bound.make_claims(pd.DataFrame(rows), 3000)


@pytest.mark.parametrize(
    ("kernel", "network"),
    [
        ([0.5] * 5, [0.5] * 5),  # nothing is learned
        ([0.05] * 5, [0.05] * 5),  # equal
        ([0.001] * 5, [0.3] * 5),  # exchanged
        ([0.08, 0.12, 0.1, 0.11, 0.09], [0.005, 0.02, 0.01, 0.015, 0.0]),  # noise
        ([0.3] * 5, []),
    ],
)
def test_kernels_that_fail_where_the_network_does_show_nothing(kernel, network, nothing_shown):
    nothing_shown(errors(np.array(kernel), np.array(network)))
