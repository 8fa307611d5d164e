"""Claims, table and pictures of neurons: clusters on images, all clusters found of a mixture.

Source of the claims: Shi, Wei and Liang (ICLR 2022), appendices E.3.2 and E.4.
"""

import functools
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.experiments.feature_learning.pictures import NEAR, draw_pictures, table_of_pictures
from lsa_jax.experiments.feature_learning.weight_clouds.settings import SETTINGS
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.claims import Claim, Condition, above_chance, decide_all, shown
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import value
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

# Directions form clusters if their silhouette is above this: a "reasonable structure", Kaufman and
# Rousseeuw (1990), Finding Groups in Data.
STRUCTURE = 0.5
# The numbers of clusters that are compared.
COUNTS = (2, 3, 4, 5, 6)


def make_claims(config: Config) -> list[Claim]:
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


def _mixture(config: Config, where: str, own: dict[str, float]) -> list[Claim]:
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


def _images(config: Config, where: str, own: dict[str, float]) -> list[Claim]:
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
    """Draws one run's neurons; a mixture's centres in red and orange by label, as in the paper."""
    titles = [f"after {row['picture']} steps" for row in rows]
    labels = rows[0]["mark_labels"]
    colors = tuple("#D62728" if label > 0 else "#FF8C00" for label in labels)
    return draw_pictures(rows, titles, colors) if colors else draw_pictures(rows, titles)


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the table, the claims and the pictures of the first seed of each scale."""
    # Each seed draws its test set of a mixture; that of images is shared.
    kept, fresh = outcomes.read(workdir, results["id"]), config.data.dataset == "gaussian_mixture"
    runs = Runs.of(SETTINGS.sweep(config), results, kept, fresh=fresh)
    if "num_test" not in results:  # older results; at most
        runs = runs.assign(num_test=config.data.num_test)
    measured, tables, figures, extra = [], [], {}, {}
    for std, points in runs.finished.groupby("init_std"):
        name = f"weights_{std:.2g}" if figures else "weights"
        for run in points["id"]:
            rows = files.read_metrics(workdir, run)
            own = {"id": run, "initial scale": f"{std:.2g}"}
            measured += [row | own for row in rows if "step" in row]
            if name not in figures:
                pictures = [row for row in rows if "picture" in row]
                figures[name] = functools.partial(_draw, pictures)
                extra[name] = table_of_pictures(pictures)
    curves = pd.DataFrame(measured)
    if len(curves):
        shown = {name: label for name, label in _COLUMNS.items() if name in curves}
        table = curves.groupby(["initial scale", "step"])[list(shown)].agg(mean_and_spread)
        heading = "Directions of the neurons by step"
        tables = [(heading, table.rename(columns=shown).reset_index())]
    scales = list(config.sweep.init_std) or [config.init_std]
    listed = " and ".join(f"{std:.3g}" for std in scales)
    notes = [
        "Means over seeds ± their standard deviation; pictures are of the first seed. The paper "
        f"gives neither loss nor rate, batch or initial scale: {config.loss}, "
        f"{config.learning_rate:g}, {config.batch_size} and entries of standard deviation "
        f"{listed} are ours. Directions cluster where initial weights are small; large weights "
        "hardly turn, and the accuracy rises all the same. Stars are the centres of a mixture, "
        "dots near one have its colour; on images colours are the signs of the output weights."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=decide_all(make_claims(config), runs),
        figures=figures,
        extra_tables={"curves": curves} | extra,
        notes=notes,
    )
