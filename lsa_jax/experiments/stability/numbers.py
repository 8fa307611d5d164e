"""What chapter 2 of Karp's thesis (2024) prints, to stand beside ours."""

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
        "stability": ("does not decrease", 0.0, float("inf")),
    },
    "2b": {"loss_gap": ("-0.35", -0.35, -0.35), "stability": ("-0.17", -0.17, -0.17)},
}

# How far ours may be off: nearer where another number of the same configuration is near.
STABILITY_TOLERANCE = 0.1

# Karp (thesis, 2024), section 2.4.2: how far accuracy falls between the two models, in words and in
# percentage points, above the first and below the second. Up to 2 count as connected (Frankle et
# al., 2020); that 5 are no longer slight is a margin of ours, stated before any run.
CONNECTIVITY_DROPS: dict[str | None, tuple[str, float, float]] = {
    "1a": ("connected: no fall", -float("inf"), 2.0),
    "2a": ("a slight fall", 0.0, 5.0),
    "2b": ("a large fall", 2.0, float("inf")),
}
