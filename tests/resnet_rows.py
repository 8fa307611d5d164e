"""Rows of results and configurations as the tests of the ResNet's claims make them."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical import settings
from lsa_jax.experiments.resnet.hierarchical.report import CLAIMS, runs_of
from lsa_jax.reporting.claims import decide_all
from lsa_jax.sweep.variants import set_fields

# So many test examples that an error is as good as exact: within 0.03 %.
EXACT = 10**8


def configure(question="width", **fields):
    axes = {"sweep.series": (("3resnet", "all"),), "sweep.seed": (0, 1, 2), "num_train": 500}
    axes |= {"question": question, "num_test": EXACT}
    return set_fields(settings.default_config(), axes | fields)


def row(net, learner, error, seed=0, **changes):
    """Returns a result; seeds differ by 0.01 %."""
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15, "num_train": 500}
    task |= {"alpha": 0.3, "beta": 1.0, "width": 200, "seed": seed, "status": "ok"}
    error = error * (1 + seed / 1e4)
    return task | {"net": net, "learner": learner, "test_error": error} | changes


def decided(config, rows):
    """Returns the claims of a configuration's question by their items."""
    results = pd.DataFrame(rows).assign(id=np.arange(len(rows)).astype(str))
    claims = CLAIMS[config.question](config)
    found = {claim.item: claim for claim in decide_all(claims, runs_of(config, results))}
    assert len(found) == len(claims)
    return found


def one(found, words):
    """Returns the claim whose item has these words."""
    (claim,) = (claim for item, claim in found.items() if words in item)
    return claim
