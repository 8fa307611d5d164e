"""Numbers that the papers print, to be put beside ours."""

from typing import NamedTuple


class Retained(NamedTuple):
    """What the paper prints of the accuracy at zero noise that is retained.

    Attributes:
        noise: at which noise, the paper's highest.
        percent: by learner.
    """

    noise: float
    percent: dict[str, float]


# Karp et al. (NeurIPS 2021), table 1 (thesis table 3.1).
RETAINED: dict[str, Retained] = {
    "lsa/table1/cifar10_photographs": Retained(1.0, {"network": 98.97, "ntk_finite": 69.75}),
    "lsa/table1/cifar_vehicles": Retained(1.0, {"network": 97.25, "ntk_finite": 76.37}),
    "lsa/table1/cifar2_photographs": Retained(1.0, {"network": 99.79, "ntk_finite": 92.81}),
    "lsa/table1/cifar2_gaussian": Retained(2.0, {"network": 96.83, "ntk_finite": 85.54}),
}

# Karp et al. (NeurIPS 2021), section 6 on figure 6: without noise, NTKs and CNN are on a par.
ON_PAR_AT_ZERO_NOISE = ("lsa/fig6_mnist",)

_SIGMAS = (0.0, 0.5, 1.0, 2.0)


def _by_noise(network: tuple[float, ...], ntk: tuple[float, ...]) -> dict[str, dict[float, float]]:
    return {
        "network": dict(zip(_SIGMAS, network, strict=True)),
        "ntk_finite": dict(zip(_SIGMAS, ntk, strict=True)),
    }


# Karp (thesis, 2024), table B.1: test accuracy in percent on CIFAR-2 with Gaussian noise, by
# (placement, side of the image, side of the background), learner and standard deviation.
TEST_ACCURACY_PERCENT: dict[str, dict[tuple[str, int, int], dict[str, dict[float, float]]]] = {
    "lsa/table_b1": {
        ("random_location", 16, 32): _by_noise((94.7, 94.0, 92.8, 91.7), (89.9, 87.3, 83.7, 76.9)),
        ("random_corner", 16, 32): _by_noise((94.3, 94.2, 92.7, 92.6), (91.6, 88.3, 84.5, 78.3)),
        ("fixed_corner", 16, 32): _by_noise((94.4, 94.3, 94.0, 92.9), (92.0, 88.8, 85.2, 80.0)),
        ("random_location", 32, 64): _by_noise((96.1, 96.2, 95.8, 94.9), (91.2, 89.4, 84.6, 82.2)),
        ("random_corner", 32, 64): _by_noise((96.5, 96.5, 96.5, 95.9), (91.8, 89.1, 85.3, 79.1)),
        ("fixed_corner", 32, 64): _by_noise((96.9, 96.6, 96.0, 95.6), (93.1, 91.0, 88.3, 82.9)),
    }
}

# Karp (thesis, 2024), chapter 4, which prints statements and no measurements: by our name what is
# compared, and what the thesis says of it.
DECISION_LIST_CLAIMS: dict[str, tuple[str, str]] = {
    "theorem4_3": (
        "runs that classify perfectly within the bound, V = cP",
        "all: a step t <= 32 M lambda_max / log L (theorem 4.3)",
    ),
    "theorem4_4": (
        "runs that classify perfectly within the bound, V near cP",
        "all: a step t <= lambda_max epsilon / (2 max(1, loss at 0)) (theorem 4.4)",
    ),
    "loss_falls": ("runs whose loss falls at every step", "all (proofs of both theorems)"),
    "slope": (
        "squared slope in W while a token is wrong, over the proof's",
        "above 1: misclassification implies a large gradient",
    ),
    "column_order": (
        "share of W's columns in list order at perfect classification",
        "1: weights follow the list (section 4.3.2)",
    ),
    "lemma4_1": ("largest distance of V from cP, over epsilon", "1 at most (lemma 4.1)"),
    "exact_columns": ("columns of V with their largest entry at pi, exact step", "P shows in V"),
    "exact_correlation": ("correlation of V with P, exact step", "P shows in V"),
    "sampled_columns": (
        "columns of V with their largest entry at pi, largest sample",
        "P shows in V",
    ),
    "sampled_correlation": ("correlation of V with P, largest sample", "P shows in V"),
    "attention_needed": (
        "share of tokens that any V can get right at W = 0",
        "below 1: attention is needed",
    ),
    "near_success": ("runs that succeed from V_0 nearest to cP", "all where near enough"),
    "random_success": ("runs that succeed from a random V_0", "left open"),
}


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


class GrowingNumbers(NamedTuple):
    """What the thesis prints of one setting of growing, by strategy where it is a table.

    Attributes:
        initial_spearman: of the loss on growing with the final loss; None where not printed.
        early_spearman: of an early loss with the final one, by steps after growing.
        lag_steps: k of LAG@k in the tables.
        final_loss: validation loss.
        regret: over the best operator's.
        relative_regret: over the worst operator's regret.
    """

    initial_spearman: float | None
    early_spearman: dict[int, float | str]
    lag_steps: int
    final_loss: dict[str, float]
    regret: dict[str, float]
    relative_regret: dict[str, float]


GROWING_STRATEGIES = ("oracle", "lag", "lag_0", "stack_last", "stack_random")


def _by_strategy(*values: float) -> dict[str, float]:
    return dict(zip(GROWING_STRATEGIES, values, strict=True))


# Karp (thesis, 2024), figures 5.2 and 5.3, tables 5.1 (BERT, LAG@200) and 5.2 (UL2, LAG@2000): 30
# operators, one run of each.
GROWING: dict[str, GrowingNumbers] = {
    "encoder": GrowingNumbers(
        -0.418,
        {200: "about 0.8", 5000: 0.986},
        200,
        _by_strategy(1.7461, 1.7461, 1.7875, 1.7747, 1.7875),
        _by_strategy(0.0, 0.0, 0.0414, 0.0286, 0.0414),
        _by_strategy(0.0, 0.0, 0.7986, 0.5517, 0.7986),
    ),
    "decoder": GrowingNumbers(
        None,
        {},
        2000,
        _by_strategy(2.1254, 2.1268, 2.1398, 2.1357, 2.1398),
        _by_strategy(0.0, 0.0014, 0.0144, 0.0103, 0.0144),
        _by_strategy(0.0, 0.0895, 0.9202, 0.6582, 0.9202),
    ),
}

# Karp (thesis, 2024), sections 5.3.3 and 5.4.1: where the phases change, steps after growing.
GROWING_TRANSITION: dict[str, str] = {
    "encoder": "clear, about step 50 in BERT-Base",
    "decoder": "clear, about step 1,000 in UL2",
}

# Karp (thesis, 2024), table C.2: final validation loss of BERT-Large grown in six stages.
STACKING_LOSS: dict[str, float] = {"adaptive": 1.5301, "last": 1.5432}

# Allen-Zhu and Li (2019), section 8.1, which prints no numbers beside k alpha^2 = 1.35: by our name
# what is compared, and what the paper says of it. What the ResNet has learned "to us" are bounds of
# ours, about where the paper's curves lie.
HIERARCHY_CLAIMS: dict[str, tuple[str, str]] = {
    "resnet_all": (
        "largest median error of 3resnet(all), m from 50 (learned, to us: {learned:g} at most)",
        "learns: below k alpha^2 = {bound:g}",
    ),
    "resnet_hidden": (
        "largest median error of 3resnet(hidden), m from 200 (learned, to us: {learned:g} at most)",
        "learns: below k alpha^2 = {bound:g}",
    ),
    "others": (
        "least median error over m, {series}",
        "does not learn: above k alpha^2 = {bound:g}",
    ),
    "beta_above": (
        "least median error over m, beta = {beta:g}",
        "learns: below k alpha^2 = {bound:g}",
    ),
    "beta_below": (
        "least median error over m, beta = {beta:g}",
        "does not learn: above k alpha^2 = {bound:g}",
    ),
    "skip_alone": (
        "least median error over m, {series}: a skip, no bottleneck",
        "eq. 2.1 learns: below k alpha^2 = {bound:g}",
    ),
    "bottleneck_alone": (
        "least median error over m, {series}: a bottleneck, no skip",
        "not tried; if the skip does it, above k alpha^2 = {bound:g}",
    ),
    "kernel_samples": (
        "least N at which a kernel is below half of k alpha^2, d = {d}, degree {degree}",
        "at least about d^(degree / 2) = {bound:g} (theorem 2)",
    ),
    "resnet_samples": (
        "least N at which the ResNet is below half of k alpha^2, d = {d}, degree {degree}",
        "fewer than any kernel (theorems 1 and 2)",
    ),
    "base_first": (
        "epochs to half of the base / of the composite signal, {series}",
        "base before composite (section 3)",
    ),
    "never": (
        "share of the composite signal missed at the end, {series}",
        "above 1/2: not learned",
    ),
}

# Allen-Zhu and Li (2019), section 8.2: |W*|_F / sqrt(d) of networks made by hand and their errors;
# the best test error that SGD found, by d.
HAND_MADE_NORMS: tuple[tuple[float, float], ...] = ((9.7, 0.12), (12.5, 0.037), (13.8, 0.011))
BEST_SGD_ERROR: dict[int, float] = {40: 0.69, 100: 0.98}

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

# How far ours may be off: gaps vary little between pairs, maxima of the others are heavy-tailed.
STABILITY_TOLERANCES = {"loss_gap": 0.1, "error_gap": 0.1, "stability": 0.25, "distance": 0.25}

# Karp (thesis, 2024), appendix A.1: sizes with a roughly consistent rate of decrease. Over a wider
# range, figure A.1 "reveals different regions of decrease".
STABILITY_SIZES = (15_000, 50_000)

# Karp (thesis, 2024), section 2.4.2: how far accuracy falls between the two models, in words and in
# percentage points. Up to 2 count as connected (Frankle et al., 2020); what is slight is ours.
CONNECTIVITY_DROPS: dict[str | None, tuple[str, float, float]] = {
    "1a": ("connected: no fall", 0.0, 2.0),
    "2a": ("a slight fall", 0.0, 5.0),
    "2b": ("a large fall", 2.0, float("inf")),
}
