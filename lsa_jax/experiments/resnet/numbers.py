"""Numbers that Allen-Zhu and Li (NeurIPS 2019) print."""

# Allen-Zhu and Li (2019), section 8.2: |W*|_F / sqrt(d) of networks made by hand and their errors;
# the best test error that SGD found, by d.
HAND_MADE_NORMS: tuple[tuple[float, float], ...] = ((9.7, 0.12), (12.5, 0.037), (13.8, 0.011))
BEST_SGD_ERROR: dict[int, float] = {40: 0.69, 100: 0.98}
# The largest width at which it was looked for, by d.
SGD_WIDTHS: dict[int, int] = {40: 100_000, 100: 50_000}
