"""The images that learners see, by kind of background, placement and noise.

Karp et al. (NeurIPS 2021), figure 5, and the placements of the thesis, appendix B.4.
"""

import functools
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from lsa_jax import processes
from lsa_jax.experiments.lsa.noise_curves import tasks
from lsa_jax.experiments.lsa.noise_curves.tasks import ImageTask
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress

_FILE = "examples.npy"


def run(
    group: list[Point], data: dict[str, ImageTask], directory: Path, progress: Progress
) -> list[Outcome]:
    """Composes a point's first training images and keeps them in its folder."""
    (point,) = group
    task = tasks.task_of(point, data)
    index = np.arange(point.config.num_examples)
    composed = np.asarray(tasks.composed(point, task, tasks.TRAIN, index).inputs)
    buffer = io.BytesIO()
    np.save(buffer, composed)
    processes.everyone().on_first(lambda: files.write_bytes(directory / _FILE, buffer.getvalue()))
    progress(1.0)
    measures = {"pixel_mean": float(composed.mean()), "pixel_std": float(composed.std())}
    return [Outcome(measures, [measures])]


def _panel(images: Float[np.ndarray, "n b b c"]) -> Float[np.ndarray, "b w c"]:
    """Lays images side by side, with a white line between them, and clips pixels to [0, 1]."""
    framed = np.pad(images, ((0, 0), (0, 0), (0, 1), (0, 0)), constant_values=1.0)
    row = framed.transpose(1, 0, 2, 3).reshape(images.shape[1], -1, images.shape[3])
    return np.clip(row[:, :-1], 0.0, 1.0)


def draw(results: pd.DataFrame, workdir: Path) -> Any:
    """Draws one row for each background and placement, and one column a noise level."""
    rows = list(results.groupby(["background", "placement"], sort=False))
    columns = max(len(row) for _, row in rows)
    figure, grid = subplots(len(rows), columns, 2.6, 1.15)
    for axis in grid.flat:
        axis.set(xticks=[], yticks=[])
        axis.set_frame_on(False)
    for axes, ((background, placement), row) in zip(grid, rows, strict=True):
        axes[0].set_ylabel("\n".join([background, *placement.split("_")]), fontsize=7)
        for axis, point in zip(axes, row.itertuples(), strict=False):
            panel = _panel(np.load(workdir / "groups" / point.id / _FILE))
            axis.imshow(panel, cmap="gray", vmin=0, vmax=1)
            axis.set_title(f"noise {point.noise:g}", fontsize=7)
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the picture, and the pixels' mean and standard deviation as a table."""
    columns = ["background", "placement", "noise", "pixel_mean", "pixel_std"]
    return Report(
        tables=[("Pixels of the examples", runs.finished[columns])],
        figures={"examples": functools.partial(draw, runs.finished, workdir)},
        notes=["Pixels below 0 are drawn black and above 1 white."],
    )


EXPERIMENT = Experiment(load=tasks.load, run=run, report=make_report)
