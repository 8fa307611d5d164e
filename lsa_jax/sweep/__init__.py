"""Sweeps of experiments: their settings, the points of a sweep, running and resuming them.

All of it in one call, for notebooks, from a configuration to its results and report:

config = settings.default_config()
config.sweep.seed = (0,)
found = sweep.run_config(config)
found.claims, found.figure("signal_dynamics")
"""

import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections
import pandas as pd

from lsa_jax.errors import InputError
from lsa_jax.reporting.report import Report
from lsa_jax.sweep.fields import load_settings
from lsa_jax.sweep.points import make_points


class Finished(NamedTuple):
    """The results of a sweep.

    Attributes:
        results: one row a point, as in `results.csv`.
        report: the experiment's tables, claims and figures.
        workdir: the folder with all files, `report.html` among them.
    """

    results: pd.DataFrame
    report: Report
    workdir: Path

    @property
    def claims(self) -> pd.DataFrame:
        """The paper's statements and numbers, and ours."""
        rows = [(c.item, c.paper, c.ours, c.status) for c in self.report.claims]
        return pd.DataFrame(rows, columns=["item", "paper", "ours", "status"])

    def figure(self, name: str) -> Any:
        """Draws a figure of the report and returns it.

        Raises:
            InputError: the report has no figure of this name.
        """
        if name not in self.report.figures:
            accepted = ", ".join(self.report.figures) or "none, as the report has no figures"
            raise InputError(f"name is {name!r}; accepted: {accepted}")
        return self.report.figures[name]()


def run_config(
    config: ml_collections.ConfigDict,
    workdir: Path | str | None = None,
    data_dir: Path | str | None = None,
) -> Finished:
    """Runs every point of a configuration's sweep and makes the report, in this process.

    Args:
        config: an experiment's `settings.default_config()`, with fields set, or a configuration
            of a file below `configs/`, whose own `get_sweep` is not used; it may be changed
            afterwards.
        workdir: the folder for all files, whose finished runs are not repeated; None makes a
            temporary one.
        data_dir: folder of data sets; None means LSA_DATA_DIR or the cache.

    Raises:
        InputError: a field is not accepted, data are missing or damaged, or the folder holds
            something else.
    """
    from lsa_jax.sweep.run import make_report, run_sweep  # imports jax, which few commands need

    config = config.copy_and_resolve_references()
    settings = load_settings(config.get("experiment"))
    settings.validate(config)
    points = make_points(config, settings.sweep(config), settings.validate)
    given = tempfile.mkdtemp(prefix="lsa_jax_") if workdir is None else workdir
    folder = Path(os.path.expanduser(given))
    results = run_sweep(
        config,
        points,
        folder,
        data_dir=None if data_dir is None else Path(data_dir),
        command=["sweep.run_config"],
        show=lambda text: None,
    )
    return Finished(results, make_report(config, points, results, folder), folder)
