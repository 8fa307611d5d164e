"""Results of a sweep, and reports on made-up ones."""

from pathlib import Path

import pandas as pd

from lsa_jax.sweep import run
from lsa_jax.sweep.fields import load_settings
from lsa_jax.sweep.points import Point

CLOCK = ["seconds", "images_per_second", "peak_fraction", "matrix_seconds"]


def read_results(workdir):
    """Returns the table of a sweep without its times."""
    return pd.read_csv(workdir / "results.csv").drop(columns=CLOCK, errors="ignore")


def make_report(config, results, workdir=Path("nowhere")):
    """Returns the report on results, which may lack runs of the configuration's sweep."""
    sweep = load_settings(config.experiment).sweep(config)
    if "id" not in results:
        results = results.assign(id=[f"{place}" for place in range(len(results))])
    return run.make_report(config, [Point("", own, config) for own in sweep], results, workdir)
