"""What Shi, Wei and Liang (ICLR 2022) print, to stand beside ours."""


def _feature_rows(*rows: tuple[float | None, ...]) -> dict[str, tuple[float | None, ...]]:
    names = ("network", "ntk", "random_features", "one_step", "two_step", "without_structure")
    return dict(zip(names, rows, strict=True))


# Shi, Wei and Liang (ICLR 2022), tables 1 to 5: train and test accuracy in percent, and the cosine
# of the nearest neuron with the ground truth (None: the paper gives none).
FEATURE_LEARNING: dict[str, dict[str, tuple[float | None, ...]]] = {
    "feature_learning/table1": _feature_rows(
        (100.0, 100.0, 0.997),
        (84.0, 86.4, None),
        (74.7, 76.0, 0.114),
        (51.3, 52.2, 0.848),
        (100.0, 100.0, 0.997),
        (100.0, 52.0, 0.253),
    ),
    "feature_learning/table2": _feature_rows(
        (100.0, 100.0, 1.0),
        (100.0, 100.0, None),
        (76.4, 73.2, 0.153),
        (44.1, 41.0, 0.901),
        (100.0, 100.0, 0.994),
        (100.0, 100.0, 0.965),
    ),
    "feature_learning/table3_d100": _feature_rows(
        (100.0, 100.0, 1.0),
        (83.1, 81.5, None),
        (78.9, 78.3, 0.354),
        (53.0, 51.1, 0.967),
        (100.0, 100.0, 1.0),
        (100.0, 51.0, 0.331),
    ),
    "feature_learning/table3_d2000": _feature_rows(
        (100.0, 100.0, 0.998),
        (75.6, 75.4, None),
        (80.0, 77.0, 0.056),
        (50.22, 50.01, 0.560),
        (100.0, 100.0, 0.998),
        (100.0, 52.5, 0.309),
    ),
    "feature_learning/table4_80": _feature_rows(
        (100.0, 100.0, 0.999),
        (62.9, 82.7, None),
        (72.7, 70.4, 0.293),
        (78.3, 75.7, 0.950),
        (100.0, 100.0, 0.999),
        (100.0, 61.7, 0.218),
    ),
    "feature_learning/table4_90": _feature_rows(
        (100.0, 100.0, 0.997),
        (84.0, 81.7, None),
        (73.6, 72.4, 0.296),
        (92.3, 89.2, 0.956),
        (100.0, 100.0, 0.997),
        (100.0, 71.8, 0.286),
    ),
    "feature_learning/table5_25000": _feature_rows(
        (100.0, 100.0, 0.997),
        (84.0, 84.1, None),
        (78.6, 74.7, 0.105),
        (50.6, 50.0, 0.851),
        (100.0, 100.0, 0.997),
        (100.0, 50.2, 0.230),
    ),
    "feature_learning/table5_10000": _feature_rows(
        (100.0, 100.0, 0.995),
        (73.9, 75.0, None),
        (71.6, 74.3, 0.096),
        (50.7, 50.3, 0.974),
        (100.0, 100.0, 0.994),
        (100.0, 52.2, 0.176),
    ),
}

# Shi, Wei and Liang (ICLR 2022), table 7: cosines of mean gradients v1, v2, v3 of three chunks of
# ten steps and their mean v, by filters in the first block.
GRADIENT_COSINES: dict[int, dict[str, float]] = {
    128: {
        "v1_v": 0.9727,
        "v2_v": 0.8655,
        "v3_v": 0.6549,
        "v1_v2": 0.7454,
        "v1_v3": 0.5083,
        "v2_v3": 0.6533,
    },
    256: {
        "v1_v": 0.8646,
        "v2_v": 0.9665,
        "v3_v": 0.9121,
        "v1_v2": 0.7087,
        "v1_v3": 0.6919,
        "v2_v3": 0.9135,
    },
}

# The same, captions of figures 20 and 21: mean cosine of either cluster with its centre, and the
# cosine of the centres, in the four blocks; and test accuracy in percent.
FILTER_CLUSTERS: dict[int, list[tuple[float, float, float]]] = {
    128: [
        (0.6152, 0.6973, -0.7245),
        (0.5528, 0.6000, -0.7509),
        (0.4260, 0.5006, -0.5099),
        (0.5584, 0.5697, -0.9074),
    ],
    256: [
        (0.7065, 0.6551, -0.7875),
        (0.6599, 0.5299, -0.9004),
        (0.5193, 0.6267, -0.9258),
        (0.7386, 0.6839, -0.9740),
    ],
}
RESNET_TEST_ACCURACY: dict[int, float] = {128: 95.75, 256: 93.8}
