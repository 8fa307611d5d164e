"""The coordinate check in tables and figures: change of activations against the width.

Where learning rates transfer over widths, activations of every layer change as much at any width in
a few steps (Yang et al., Tensor Programs V, 2022, arXiv 2203.03466, appendix D.1). A column of
changes is "change/NAME", with the name of the activations, or "outputs".
"""

from typing import Any

import pandas as pd

from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, tidy

# Slopes of log change against log width up to this size count as flat. Ours.
FLAT = 0.15

_CHANGE = "change/"


def columns(table: pd.DataFrame) -> list[str]:
    """Returns the columns of changes, "change/NAME", the outputs' last."""
    found = [name for name in table if name.startswith(_CHANGE)]
    return sorted(found, key=lambda name: name == f"{_CHANGE}outputs")


def name_of(column: str) -> str:
    """Returns the activations' name of a column."""
    return column.removeprefix(_CHANGE)


def draw_changes(axis: Any, table: pd.DataFrame, against: str) -> None:
    """Draws the changes of all activations against the width's column, both axes logarithmic."""
    for column, color in zip(columns(table), PALETTE, strict=False):
        style = {"color": color, "label": name_of(column), "marker": "o", "markersize": 3}
        draw_mean(axis, table[column], table[against], **style)
    mark_logarithmic(axis, table[against])
    axis.set(yscale="log")
    tidy(axis)
