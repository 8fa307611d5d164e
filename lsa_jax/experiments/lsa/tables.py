"""Tables that the reports of this paper begin with."""

from collections.abc import Sequence
from pathlib import Path

import ml_collections
import pandas as pd

from lsa_jax.reporting import files


def with_settings(
    results: pd.DataFrame, config: ml_collections.ConfigDict, names: Sequence[str]
) -> pd.DataFrame:
    """Returns results with settings that were not swept as columns, such as those of one point."""
    return results.assign(**{name: config[name] for name in names if name not in results})


def histories(results: pd.DataFrame, workdir: Path, names: Sequence[str]) -> pd.DataFrame:
    """Returns one row an evaluation: columns of its run's result, and its numbers."""
    rows = [
        {name: result[name] for name in names} | row
        for result in results.to_dict("records")
        for row in files.read_metrics(workdir, result["id"])
    ]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(names))
