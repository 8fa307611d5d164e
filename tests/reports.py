"""Reports on made-up results, as a sweep makes them."""

from pathlib import Path

from lsa_jax.sweep import run
from lsa_jax.sweep.fields import load_settings
from lsa_jax.sweep.points import Point


def make_report(config, results, workdir=Path("nowhere")):
    """Returns the report on results, which may lack runs of the configuration's sweep."""
    sweep = load_settings(config.experiment).sweep(config)
    if "id" not in results:
        results = results.assign(id=[f"{place}" for place in range(len(results))])
    return run.make_report(config, [Point("", own, config) for own in sweep], results, workdir)
