"""Claims on directions of neurons: clusters on images, all clusters found of a mixture.

Source: Shi, Wei and Liang (ICLR 2022), appendices E.3.2 and E.4.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.pictures import NEAR
from lsa_jax.reporting.claims import Claim, Condition, above_chance, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import value

# Directions form clusters if their silhouette is above this: a "reasonable structure", Kaufman and
# Rousseeuw (1990), Finding Groups in Data.
STRUCTURE = 0.5
# The numbers of clusters that are compared.
COUNTS = (2, 3, 4, 5, 6)


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims of each scale of the initial weights."""
    scales = config.sweep.init_std or (config.init_std,)
    of_data = _mixture if config.data.dataset == "gaussian_mixture" else _images
    return [
        claim
        for std in scales
        for claim in of_data(
            config, f", initial scale {std:.2g}" if len(scales) > 1 else "", {"init_std": std}
        )
    ]


def _mixture(config: ml_collections.ConfigDict, where: str, own: dict[str, float]) -> list[Claim]:
    """Returns the claims on a mixture.

    A neuron within `NEAR` of a cluster's centre is nearer to it than to any other: centres are
    corners of a cube, and half way between neighbours the cosine is sqrt(1 - 1 / k), 0.89 at most
    for k up to 5.
    """
    return [
        Claim(
            item=f"seeds in which each cluster has a neuron at a cosine of {NEAR:g}{where}",
            paper="all: every centre is covered by some neurons",
            statistic=_equal("share_covered", 1, own),
            every=True,
            conditions=_learned("share_covered", own),
        ),
        Claim(
            item=f"cosine of the nearest neuron, least over clusters{where}",
            statistic=value("least_covered", bounds=(-1.0, 1.0), **own),
        ),
    ]


def _images(config: ml_collections.ConfigDict, where: str, own: dict[str, float]) -> list[Claim]:
    """Returns the claims on images."""
    clusters = Claim(
        item=f"silhouette of {config.clusters} clusters of directions{where}",
        paper=f"above {STRUCTURE:g}: weights form clusters",
        statistic=value("silhouette", bounds=(-1.0, 1.0), **own),
        above=STRUCTURE,
        conditions=_learned("silhouette", own),
    )
    number = Claim(
        item=f"seeds in which {config.clusters} clusters, of {COUNTS[0]} to {COUNTS[-1]}, "
        f"have the largest silhouette{where}",
        paper="all",
        statistic=_equal("best_count", config.clusters, own),
        every=True,
        luck=1 / len(COUNTS),
        conditions=(shown(clusters, "weights form clusters"),),
    )
    return [clusters, number]


def _equal(column: str, number: float, settings: dict[str, float]) -> Statistic:
    """Returns the statistic that is 1 in seeds in which a column has a number, else 0."""

    def statistic(runs: Runs) -> Sample:
        found = value(column, **settings)(runs)
        return found._replace(values=(found.values == number).astype(float))

    return statistic


def _learned(measure: str, settings: dict[str, float]) -> tuple[Condition, ...]:
    """Returns the conditions that the network learns, and that training raises a measure."""

    def unmet(runs: Runs) -> str:
        rows = runs.where(**settings).finished
        lower = (rows[measure] <= rows[f"start_{measure}"]).sum()
        return f"{lower} of {len(rows)} seeds have no more" if lower else ""

    raised = Condition("more than before training", unmet)
    return above_chance("the network", **settings), raised
