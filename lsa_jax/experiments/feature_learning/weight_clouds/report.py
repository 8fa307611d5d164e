"""The report on directions of neurons: how they cluster with time, and their pictures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.pictures import NEAR, draw_pictures, table_of_pictures
from lsa_jax.experiments.feature_learning.weight_clouds.claims import make_claims
from lsa_jax.experiments.feature_learning.weight_clouds.settings import SETTINGS
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

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


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
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
