"""The history of benchmarks: a row a work in a CSV file, and a figure of its ratios over time.

Ratios are of processor times: on a busy machine they hardly change.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.errors import InputError
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import PALETTE
from lsa_jax.reporting.machine import describe_host
from lsa_jax.sweep.run import package_versions

# Rows that agree in these columns are measurements of the same on the same machine.
_SAME = ("suite", "work", "size", "peer", "machine")
_COLUMNS = ("date", *_SAME, "ratio", "ours_s", "lsa_jax", "jax", "jaxlib", "numpy")

# The part of the ratio before, below which it has become worse.
_LEAST = 0.9


def read(file: Path) -> pd.DataFrame:
    """Returns the rows of a history, none where there is no file yet.

    Raises:
        InputError: the file has other columns.
    """
    if not file.exists():
        return pd.DataFrame(columns=list(_COLUMNS))
    found = pd.read_csv(file, dtype={"lsa_jax": str})
    if tuple(found) != _COLUMNS:
        raise InputError(f"--history is {str(file)!r}; accepted: a file with {', '.join(_COLUMNS)}")
    return found


def append(file: Path, suite: str, row: dict[str, Any]) -> str:
    """Adds a row of `measure` to a history; returns a warning where its ratio fell, else "".

    Args:
        file: is made if need be.
        suite: of the work.
        row: with the device's kind in JAX, as `launch.benchmark` has it.

    Raises:
        InputError: the file has other columns.
    """
    rows, host, installed = read(file), describe_host(), package_versions()
    device = host["cpu"] if row["device"] == "cpu" else row["device"]
    new = {name: row[name] for name in ("work", "size")}
    new |= {"ratio": row["processor_ratio"], "ours_s": row["ours_processor_s"]}
    new |= {"suite": suite, "peer": row["peer"].partition(",")[0]}
    new |= {"machine": f"{device}, {host['cores']} cores"}
    new |= {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"}
    new |= {name: installed[name] for name in ("lsa_jax", "jax", "jaxlib", "numpy")}
    same = np.logical_and.reduce([rows[name] == new[name] for name in _SAME])
    before = rows.loc[same, ["ratio", "date"]].tail(1)
    both = [*rows.to_dict("records"), {name: new[name] for name in _COLUMNS}]
    files.write_text(file, pd.DataFrame(both).to_csv(index=False, float_format="%.4g"))
    if before.empty or new["ratio"] >= _LEAST * before["ratio"].item():
        return ""
    change = 1 - new["ratio"] / before["ratio"].item()
    return f"slower: {row['work']} lost {change:.0%} since {before['date'].item()}"


def draw(rows: pd.DataFrame) -> Any:
    """Draws the ratio of each work to its peer, in the order of measurement; above 1 is faster."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    for place, (names, own) in enumerate(rows.groupby(list(_SAME), sort=False)):
        label = f"{names[1]}, {names[2]}: {names[3]} ({names[4]})"
        style = {"color": PALETTE[place % len(PALETTE)], "label": label, "marker": "o"}
        versions = own["date"] + "\n" + own["lsa_jax"] + ", jax " + own["jax"]
        axis.plot(versions, own["ratio"], **style)
    axis.axhline(1, color="0.6", ls=":")
    axis.set(yscale="log", ylabel="the peer's processor time over ours")
    figure.legend(loc="outside lower center", frameon=False, fontsize="small")
    return figure
