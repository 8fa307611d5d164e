"""Numbers that Shi, Wei and Liang (ICLR 2022) print."""

_ROWS = ("network", "ntk", "random_features", "one_step", "two_step", "without_structure")

# Tables 1 to 5: train and test accuracy in percent, and the cosine of the nearest neuron with the
# ground truth, of the rows above; "-" where the paper prints none.
_PRINTED = """
table1 100/100/.997 84.0/86.4/- 74.7/76.0/.114 51.3/52.2/.848 100/100/.997 100/52.0/.253
table2 100/100/1 100/100/- 76.4/73.2/.153 44.1/41.0/.901 100/100/.994 100/100/.965
table3_d100 100/100/1 83.1/81.5/- 78.9/78.3/.354 53.0/51.1/.967 100/100/1 100/51.0/.331
table3_d2000 100/100/.998 75.6/75.4/- 80.0/77.0/.056 50.22/50.01/.560 100/100/.998 100/52.5/.309
table4_80 100/100/.999 62.9/82.7/- 72.7/70.4/.293 78.3/75.7/.950 100/100/.999 100/61.7/.218
table4_90 100/100/.997 84.0/81.7/- 73.6/72.4/.296 92.3/89.2/.956 100/100/.997 100/71.8/.286
table5_25000 100/100/.997 84.0/84.1/- 78.6/74.7/.105 50.6/50.0/.851 100/100/.997 100/50.2/.230
table5_10000 100/100/.995 73.9/75.0/- 71.6/74.3/.096 50.7/50.3/.974 100/100/.994 100/52.2/.176
"""


def _table(cells: list[str]) -> dict[str, tuple[float | None, ...]]:
    """Returns (train, test, cosine) by row."""
    numbers = [[None if n == "-" else float(n) for n in cell.split("/")] for cell in cells]
    return dict(zip(_ROWS, map(tuple, numbers), strict=True))


FEATURE_LEARNING: dict[str, dict[str, tuple[float | None, ...]]] = {
    f"feature_learning/{name}": _table(cells)
    for name, *cells in map(str.split, _PRINTED.strip().splitlines())
}

# Table 7: cosines of mean gradients v1, v2, v3 of three chunks of ten steps and their mean v.
_COSINES = ("v1_v", "v2_v", "v3_v", "v1_v2", "v1_v3", "v2_v3")
# Captions of figures 20 and 21: mean cosine of either cluster with its centre, and the cosine of
# the centres, in the four blocks; and test accuracy.
_CLUSTERS = [
    f"block{block}_{name}_cosine"
    for block in (1, 2, 3, 4)
    for name in ("first", "second", "centres")
]


def _of_resnet(accuracy: float, clusters: str, cosines: str) -> dict[str, float]:
    names, cells = (*_CLUSTERS, *_COSINES), f"{clusters} {cosines}".split()
    return {"test_accuracy": accuracy} | dict(zip(names, map(float, cells), strict=True))


# By filters in the first block, and by column of our results.
RESNET: dict[int, dict[str, float]] = {
    128: _of_resnet(
        0.9575,
        ".6152 .6973 -.7245 .5528 .6000 -.7509 .4260 .5006 -.5099 .5584 .5697 -.9074",
        ".9727 .8655 .6549 .7454 .5083 .6533",
    ),
    256: _of_resnet(
        0.938,
        ".7065 .6551 -.7875 .6599 .5299 -.9004 .5193 .6267 -.9258 .7386 .6839 -.9740",
        ".8646 .9665 .9121 .7087 .6919 .9135",
    ),
}
