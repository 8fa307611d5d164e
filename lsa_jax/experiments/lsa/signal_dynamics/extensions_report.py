"""The report on training dynamics where extensions were swept: a part for each of them."""

from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.lsa.signal_dynamics import report
from lsa_jax.reporting.report import Report

# How a part is called, from the swept settings of its runs.
_NAMES = {
    "num_features": lambda value: f"{value:g} features",
    "separate_filters": lambda value: "separate filters" if value else "one filter",
    "stride": lambda value: f"stride {value:g}",
}


def _name(settings: dict[str, Any]) -> str:
    """Returns a part's name; a setting that its runs were not swept over is missing in it."""
    return ", ".join(_NAMES[n](value) for n, value in settings.items() if not pd.isna(value))


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns what `report.make_report` does, or one part of it for each extension."""
    swept = [name for name in _NAMES if name in results]
    if not swept:
        return report.make_report(config, results, workdir)
    parts = {}
    for values, rows in results.groupby(swept, dropna=False, sort=False):
        name = _name(dict(zip(swept, values, strict=True)))
        parts[name] = report.make_report(config, rows, workdir)

    def labelled(field: str) -> dict[str, Any]:
        """Returns what the parts have under file names, the part's name added to these."""
        return {
            f"{file}_{name.replace(', ', '_').replace(' ', '_')}": content
            for name, part in parts.items()
            for file, content in getattr(part, field).items()
        }

    return Report(
        title=config.title,
        tables=[(f"{h}: {n}", table) for n, part in parts.items() for h, table in part.tables],
        claims=[
            c._replace(item=f"{n}: {c.item}", primary=False, holm=None)
            for n, part in parts.items()
            for c in part.claims
        ],
        figures=labelled("figures"),
        extra_tables=labelled("extra_tables"),
        notes=next(iter(parts.values())).notes,
    )
