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
