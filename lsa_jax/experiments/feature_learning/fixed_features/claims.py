"""Claims on the lower bound of theorem 2, and on the network compared with linear models.

Source: Shi, Wei and Liang (ICLR 2022), theorem 2 and corollary 3.
"""

import ml_collections

from lsa_jax.reporting.claims import Claim, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample
from lsa_jax.reporting.statistics import accuracy, lowest, minus


def has_bound(d: float, k: float) -> bool:
    """Whether theorem 2 is about a case; the settings accept odd k alone."""
    return 3 < k <= d / 16


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns two claims a case: models are above their bound, and the network is above them."""
    axes, claims = config.sweep, []
    for d, k in axes.cases:
        case = {"num_patterns": d, "k": k}
        network = accuracy(learner="network", **case)
        models = [
            accuracy(learner=features, N=count, **case)
            for features in axes.features
            for count in axes.N
        ]
        gap = Claim(
            item=f"points of test accuracy, network minus the best on fixed features, D = {d}, "
            f"k = {k}",
            statistic=lowest([minus(network, model) for model in models]),
            above=0.0,
            digits=2,
        )
        bound = Claim(
            item="seeds in which models on fixed features have at least the hinge loss of "
            f"their bound, where it is above 0, D = {d}, k = {k}",
            paper="all (theorem 2)",
            statistic=lambda runs, case=case: _respects_bound(runs.where(**case)),
            every=True,
            # Models above their bound are no lower bound where learned features do not help.
            conditions=(shown(gap, "the network is better"),),
        )
        claims += [bound, gap] if has_bound(d, k) else [gap]
    return claims


def _respects_bound(runs: Runs) -> Sample:
    """Returns 1 in seeds whose linear models are all above their bounds, else 0.

    Models that are no better than the answer 0, whose hinge loss is 1, do not count: no bound
    reaches it.
    """
    own = runs.where(learner=tuple({*runs.planned["learner"]} - {"network"}))
    rows = own.finished
    rows = rows[(rows["bound"] > 0) & (rows["norm"] > 0) & (rows["test_hinge"] < 1)]
    holds = (rows["test_hinge"] >= rows["bound"]).astype(float)
    return Sample(
        holds.groupby(rows["seed"]).min(), lost=own.lost("test_hinge"), equal=own.equal_seeds()
    )
