"""Directions of neurons: pictures in the plane, and clusters.

Shi, Wei and Liang (ICLR 2022), section 6: multidimensional scaling of 1 - cosine, not of distances,
as the analysis is about directions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Integer

from lsa_jax.reporting import files
from lsa_jax.reporting.curves import subplots

# A neuron within this cosine of a mark at the end is drawn in the mark's colour at all steps.
NEAR = 0.9

_COLORS = ("#D62728", "#FF8C00")
_REST = "#4C78A8"


def unit_rows(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Returns the rows at length 1; rows of zeros stay as they are."""
    # Weights may be so small that their squares underflow.
    rows = vectors.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


def _distances(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    """Returns 1 - cosine of all pairs of directions."""
    rows = unit_rows(vectors)
    distances = np.clip(1 - rows @ rows.T, 0, 2)
    np.fill_diagonal(distances, 0)
    return distances


def scale_directions(vectors: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    """Places directions in the plane so that distances come near 1 - cosine.

    Metric multidimensional scaling by SMACOF from the classical solution, so that the same vectors
    always give the same picture, up to the sign of its axes.
    """
    from sklearn.manifold import smacof  # here: seconds of import that no other experiment needs

    distances = _distances(vectors)
    centred = distances**2 - (distances**2).mean(axis=0, keepdims=True)
    values, axes = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    start = axes[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))[None]
    placed, _ = smacof(distances, init=start, n_init=1, max_iter=100)
    return placed


def picture_rows(
    steps: list[int],
    weights: list[Float[np.ndarray, "neurons d"]],
    marks: Float[np.ndarray, "marks d"],
) -> list[dict[str, Any]]:
    """Returns one row a step: places in the plane of marks and of neurons that are not zero.

    A neuron belongs to the mark, a true direction, within `NEAR` of it at the last step, or to none
    (-1).
    """
    last = unit_rows(weights[-1]) @ unit_rows(marks).T
    nearest = np.full(len(last), -1)
    if len(marks):
        nearest = np.where(last.max(axis=1) >= NEAR, last.argmax(axis=1), -1)
    rows = []
    for step, now in zip(steps, weights, strict=True):
        alive = np.linalg.norm(now, axis=1) > 0
        placed = scale_directions(np.concatenate([now[alive], marks]))
        places, stars = np.split(placed.round(5), [alive.sum()])
        rows.append({"picture": step, "places": places, "marks": stars, "nearest": nearest[alive]})
    return rows


def read_courses(
    workdir: Path, runs: pd.DataFrame, columns: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, list[dict[str, Any]]]]:
    """Returns the histories of runs, after columns of their results, and their pictures by id."""
    curves, pictures = [], {}
    for run in runs.to_dict("records"):
        for row in files.read_metrics(workdir, run["id"]):
            if "picture" in row:
                pictures.setdefault(run["id"], []).append(row)
            else:
                curves.append({name: run[name] for name in columns} | row)
    return pd.DataFrame(curves), pictures


def table_of_pictures(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Returns one row a neuron or mark and picture: place, kind and nearest mark."""
    parts = []
    for row in rows:
        for kind, places in (("neuron", row["places"]), ("mark", row["marks"])):
            part = pd.DataFrame(np.reshape(places, (-1, 2)), columns=["x", "y"])
            part["nearest"] = row["nearest"] if kind == "neuron" else range(len(part))
            parts.append(part.assign(picture=row["picture"], kind=kind))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def draw_places(axis: Any, row: dict[str, Any], colors: tuple[str, ...]) -> None:
    """Draws one picture: neurons as dots, marks as stars, in the colour of the mark.

    The stars lie below the neurons, which may all end up at the same places.
    """
    places, nearest = np.reshape(row["places"], (-1, 2)), np.asarray(row["nearest"])
    color = np.array([_REST, *colors])[np.where(nearest < 0, 0, 1 + nearest % len(colors))]
    axis.scatter(places[:, 0], places[:, 1], s=6, c=color, linewidths=0, zorder=3)
    for place, mark in enumerate(np.reshape(row["marks"], (-1, 2))):
        star = {"marker": "*", "s": 250, "alpha": 0.4, "linewidths": 1, "zorder": 2}
        axis.scatter(*mark, color=colors[place % len(colors)], edgecolors="black", **star)
    # Square whatever the shape of the cloud: all of it may lie on a line.
    half = 1.1 * max(np.abs(places).max(initial=0.0), 1e-9)
    axis.set(xticks=[], yticks=[], xlim=(-half, half), ylim=(-half, half), aspect="equal")
    axis.set_xlabel(f"{len(places)} neurons that are not zero")


def draw_pictures(
    rows: list[dict[str, Any]], titles: list[str], colors: tuple[str, ...] = _COLORS
) -> Any:
    """Draws neurons as dots and true patterns as stars, at several steps of training."""
    figure, (axes,) = subplots(1, len(rows), 4, 4)
    for axis, row, title in zip(axes, rows, titles, strict=True):
        draw_places(axis, row, colors)
        axis.set(title=title)
    return figure


def spherical_means(
    vectors: Float[np.ndarray, "n d"], num_clusters: int
) -> tuple[Float[np.ndarray, "k d"], Integer[np.ndarray, " n"]]:
    """Returns centres at length 1 and clusters of directions, by spherical k-means.

    It starts from the two directions that are furthest apart and adds, one by one, the direction
    whose largest cosine with the chosen ones is least, so that nothing is random.
    """
    rows = unit_rows(vectors)
    products = rows @ rows.T
    chosen = [int(place) for place in np.unravel_index(products.argmin(), products.shape)]
    while len(chosen) < num_clusters:
        chosen.append(int(products[:, chosen].max(axis=1).argmin()))
    centres, cluster = rows[chosen], np.full(len(rows), -1)
    for _ in range(100):
        before, cluster = cluster, (rows @ centres.T).argmax(axis=1)
        if (cluster == before).all():
            break
        sums = np.stack([rows[cluster == c].sum(axis=0) for c in range(num_clusters)])
        # A cluster that lost all its members keeps its centre.
        empty = np.linalg.norm(sums, axis=1, keepdims=True) == 0
        centres = unit_rows(np.where(empty, centres, sums))
    return centres, cluster


def silhouette(vectors: Float[np.ndarray, "n d"], cluster: Integer[np.ndarray, " n"]) -> float:
    """Returns the mean silhouette coefficient of clusters of directions, by 1 - cosine.

    It is 1 where clusters are narrow and far apart, and 0 for one cluster alone.

    Source: Rousseeuw (1987), Silhouettes.
    """
    from sklearn.metrics import silhouette_score  # here, as in `scale_directions`

    if not 1 < len(np.unique(cluster)) < len(cluster):
        return 0.0
    return float(silhouette_score(_distances(vectors), cluster, metric="precomputed"))
