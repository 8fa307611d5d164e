"""What chapter 2 of Karp's thesis (2024) prints, to stand beside ours."""

from math import inf
from typing import NamedTuple

# Karp (thesis, 2024), chapter 2: exponents of m that are printed, as (in words, lowest, highest).
# Of the first three panels of figure 2.1 only the range is printed, not which is which. Of 2a's
# stability only the direction is, which has no tolerance: 1a's and 2b's are decreases.
_FIRST_PANELS = ("-1.13 to -1.05", -1.13, -1.05)
STABILITY_EXPONENTS: dict[str | None, dict[str, tuple[str, float, float]]] = {
    "fig2_1": {
        "loss_gap": _FIRST_PANELS,
        "stability": _FIRST_PANELS,
        "distance": _FIRST_PANELS,
        "error_gap": ("-0.82", -0.82, -0.82),
    },
    "1a": {"loss_gap": ("-0.18", -0.18, -0.18), "stability": ("-0.09", -0.09, -0.09)},
    "2a": {
        "loss_gap": ("-0.48", -0.48, -0.48),
        "stability": ("does not decrease", 0.0, inf),
    },
    "2b": {"loss_gap": ("-0.35", -0.35, -0.35), "stability": ("-0.17", -0.17, -0.17)},
}

# How far ours may be off: nearer where another number of the same configuration is near.
STABILITY_TOLERANCE = 0.1


class Fall(NamedTuple):
    """What the thesis says of a fall of accuracy.

    Attributes:
        words: in short.
        shown: where all of an interval has to be, in percentage points.
        possible: where none of it is where the thesis is refuted; what lies between is left open.
    """

    words: str
    shown: tuple[float, float]
    possible: tuple[float, float]


# Karp (thesis, 2024), section 2.4.2: models are connected unless accuracy between them falls
# "significantly", by "roughly 2%, per Frankle et al. (2020)". 1a's is "nondecreasing", 2a's
# "slightly decreasing", which figure A.15 counts as connected, 2b's "significantly decreasing". A
# fall is the largest of many places, and so 0 or more whatever is measured: on 10,000 images, of
# which two models differ on a tenth, noise alone makes up to 0.8. Below 2 a slight fall cannot be
# told from none, which leaves 2a open, and from 5 on it is no longer slight: a margin of ours,
# stated before any run, from which 2b's is large. No fall is shown as two of the three.
CONNECTIVITY_DROPS: dict[str | None, Fall] = {
    "1a": Fall("connected: no fall", shown=(-inf, 2.0), possible=(-inf, 2.0)),
    "2a": Fall("a slight fall", shown=(2.0, 5.0), possible=(-inf, 5.0)),
    "2b": Fall("a large fall", shown=(5.0, inf), possible=(2.0, inf)),
}
