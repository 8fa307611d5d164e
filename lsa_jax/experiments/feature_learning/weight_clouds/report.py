"""Claims, table and pictures of neurons: clusters on images, all clusters found of a mixture.

Source of the claims: Shi, Wei and Liang (ICLR 2022), appendices E.3.2 and E.4.
"""

import functools
from pathlib import Path
from typing import Any

from lsa_jax.experiments.feature_learning.pictures import (
    NEAR,
    draw_pictures,
    read_courses,
    table_of_pictures,
)
from lsa_jax.reporting.claims import Claim, Condition, above_chance, shown
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import holds, value
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config

# Directions form clusters if their silhouette is above this: a "reasonable structure", Kaufman and
# Rousseeuw (1990), Finding Groups in Data.
STRUCTURE = 0.5
# The numbers of clusters that are compared.
COUNTS = (2, 3, 4, 5, 6)


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims of each scale of the initial weights."""
    scales = config.sweep.init_std or (config.init_std,)
    is_mixture, claims = config.data.dataset == "gaussian_mixture", []
    for std in scales:
        own, where = {"init_std": std}, f", initial scale {std:.2g}" if len(scales) > 1 else ""
        claims += [_mixture(where, own)] if is_mixture else _images(config, where, own)
    return claims


def _mixture(where: str, own: dict[str, float]) -> Claim:
    """Returns the claim on a mixture.

    A neuron within `NEAR` of a cluster's centre is nearer to it than to any other: centres are
    corners of a cube, and half way between neighbours the cosine is sqrt(1 - 1 / k), 0.89 at most
    for k up to 5.
    """
    return Claim(
        f"seeds in which each cluster has a neuron at a cosine of {NEAR:g}{where}",
        holds("share_covered", lambda share: share == 1, **own),
        paper="all: every centre is covered by some neurons",
        every=True,
        conditions=_learned("share_covered", own),
    )


def _images(config: Config, where: str, own: dict[str, float]) -> list[Claim]:
    """Returns the claims on images."""
    clusters = Claim(
        f"silhouette of {config.clusters} clusters of directions{where}",
        value("silhouette", bounds=(-1.0, 1.0), **own),
        paper=f"above {STRUCTURE:g}: weights form clusters",
        above=STRUCTURE,
        conditions=_learned("silhouette", own),
    )
    number = Claim(
        f"seeds in which {config.clusters} clusters, of {COUNTS[0]} to {COUNTS[-1]}, "
        f"have the largest silhouette{where}",
        holds("best_count", lambda count: count == config.clusters, **own),
        paper="all",
        every=True,
        luck=1 / len(COUNTS),
        conditions=(shown(clusters, "weights form clusters"),),
    )
    return [clusters, number]


def _learned(measure: str, settings: dict[str, float]) -> tuple[Condition, ...]:
    """Returns the conditions that the network learns, and that training raises a measure."""

    def unmet(runs: Runs) -> str:
        rows = runs.where(**settings).finished
        lower = (rows[measure] <= rows[f"start_{measure}"]).sum()
        return f"{lower} of {len(rows)} seeds have no more" if lower else ""

    raised = Condition("more than before training", unmet)
    return above_chance("the network", **settings), raised


_COLUMNS = {
    "test_accuracy": "test accuracy",
    "cosine_with_start": "cosine with own start",
    "same_sign_cosine": "cosine, same output sign",
    "opposite_sign_cosine": "cosine, opposite sign",
    "own_centre_cosine": "cosine with own centre",
    "centres_cosine": "least cosine of two centres",
    "silhouette": "silhouette",
    "best_count": "best number of clusters",
    "covered": "best cosine a cluster of data, mean",
    "least_covered": "best cosine a cluster of data, least",
    "share_covered": f"share of clusters of data with a cosine of {NEAR:g}",
}


def _draw(rows: list[dict[str, Any]]) -> Any:
    """Draws one run's neurons as dots and a mixture's centres as stars, coloured by label."""
    titles = [f"after {row['picture']} steps" for row in rows]
    labels = rows[0]["mark_labels"]
    colors = tuple("#D62728" if label > 0 else "#FF8C00" for label in labels)
    return draw_pictures(rows, titles, colors) if colors else draw_pictures(rows, titles)


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table, the claims and the pictures of the first seed of each scale."""
    if "num_test" not in runs.finished:  # older results; at most
        runs = runs.assign(num_test=config.data.num_test)
    rows = runs.finished.sort_values("init_std", kind="stable")
    curves, pictures = read_courses(workdir, rows, ["id", "init_std"])
    figures, extra = {}, {"curves": curves}
    for std, run in rows.groupby("init_std")["id"].first().items():
        name = f"weights_{std:.2g}" if figures else "weights"
        figures[name] = functools.partial(_draw, pictures[run])
        extra[name] = table_of_pictures(pictures[run])
    note = (
        "Means over seeds ± their standard deviation; pictures are of the first seed. The paper "
        "gives neither loss nor rate, batch or initial scale: the configuration's are ours. "
        "Directions cluster where initial weights are small; large weights hardly turn, and the "
        "accuracy rises all the same. Stars are the centres of a mixture, dots near one have its "
        "colour; on images colours are the signs of the output weights."
    )
    table = table_of_means(curves, ["init_std", "step"], _COLUMNS)
    return Report(
        tables=[("Directions of the neurons by step", table)],
        claims=make_claims(config),
        runs=runs,
        figures=figures,
        extra_tables=extra,
        notes=[note],
    )
