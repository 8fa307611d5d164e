"""Numbers that the papers print, to be put beside ours."""

# Karp et al. (NeurIPS 2021), table 1 (thesis table 3.1): percentage of the test accuracy at zero
# noise that is retained at the highest noise.
RETAINED_PERCENT: dict[str, dict[str, float]] = {
    "lsa/table1/cifar10_photographs": {"network": 98.97, "ntk_finite": 69.75},
    "lsa/table1/cifar_vehicles": {"network": 97.25, "ntk_finite": 76.37},
    "lsa/table1/cifar2_photographs": {"network": 99.79, "ntk_finite": 92.81},
    "lsa/table1/cifar2_gaussian": {"network": 96.83, "ntk_finite": 85.54},
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
