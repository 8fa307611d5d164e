"""What Allen-Zhu and Li (NeurIPS 2019) print and state, to stand beside ours."""

# Allen-Zhu and Li (2019), section 8.1, which prints no numbers beside k alpha^2 = 1.35: by our name
# what is compared, and what the paper says of it. Learned is half of the composite signal, in all
# claims: an error below half of k alpha^2; the paper's own threshold, all of it, is what refutes.
HIERARCHY_CLAIMS: dict[str, tuple[str, str]] = {
    "resnet_all": (
        "error of 3resnet(all) at its worst m from 50 (half of G(F): {learned:g})",
        "learns: below k alpha^2 = {bound:g}",
    ),
    "resnet_hidden": (
        "error of 3resnet(hidden) at its worst m from 200 (half of G(F): {learned:g})",
        "learns: below k alpha^2 = {bound:g}",
    ),
    "others": (
        "error at the best m, {series}",
        "does not learn: above k alpha^2 = {bound:g}",
    ),
    "beta_above": (
        "error at the best m, N = {num_train:,}, beta = {beta:g} (half of G(F): {learned:g})",
        "learns: below k alpha^2 = {bound:g}",
    ),
    "beta_below": (
        "error at the best m, N = {num_train:,}, beta = {beta:g}",
        "does not learn: above k alpha^2 = {bound:g}",
    ),
    "beta_equal": (
        "error at the best m, N = {num_train:,}, beta = {beta:g} = alpha",
        "about where it ends; k alpha^2 = {bound:g}",
    ),
    # Theorem 1: a risk of order alpha^4 (k p_G C_s(G))^4, with more examples the smaller alpha is.
    "alpha_bound": (
        "error over alpha^4 at the worst of alpha = {alphas}, N = {num_train:,}, m = {width:,}",
        "of order 1 (theorem 1): below 1, its least constant",
    ),
    "alpha_error": (
        "error over k alpha^2, N = {num_train:,}, m = {width:,}, alpha = {alpha:g}",
        "1 where nothing of G is known",
    ),
    "alpha_exponent": (
        "exponent in alpha of the error from {low:g} to {high:g}, N = {num_train:,}, m = {width:,}",
        "4 where theorem 1's bound is what limits it",
    ),
    "skip_alone": (
        "error at the best m, {series}: a skip, no bottleneck (half of G(F): {learned:g})",
        "eq. 2.1 learns: below k alpha^2 = {bound:g}",
    ),
    "bottleneck_alone": (
        "error at the best m, {series}: a bottleneck, no skip",
        "not tried; if the skip does it, above k alpha^2 = {bound:g}",
    ),
    # Theorem 2 of the arXiv version, section 7.1, is for linear F, G of one product of all of its
    # outputs, and the uniform cube. NeurIPS' has O(d^(k/2) / log^k d) and alpha^2 / 4 for large d:
    # no number that could be missed.
    "kernel_risk": (
        "least error of a kernel, N to {examples:,}, d = {d:g}, linear F, degree {composite:g}",
        "above alpha^2 / 16 = {risk:.2g} for N to C(d, k) / 1000 = {most:,} (arXiv, theorem 2)",
    ),
    "feature_risk": (
        "least error of regression on a network's features, to {features:,.0f} of them, N to "
        "{examples:,}, d = {d:g}, linear F, degree {composite:g}",
        "above alpha^2 / 16 = {risk:.2g} for C(d, k) / 1000 = {most:,} (arXiv, theorem 3)",
    ),
    "resnet_risk": (
        "least N at which the ResNet is below alpha^2 / 16 = {risk:.2g}, d = {d:g}, linear F, "
        "degree {composite:g}",
        "fewer than the {most:,} with which no kernel is (corollary 7.1)",
    ),
    "kernel_samples": (
        "least N at which a kernel is below half of k alpha^2, d = {d:g}, degrees {base:g} x "
        "{composite:g}",
        "-",
    ),
    "resnet_samples": (
        "least N at which the ResNet is below half of k alpha^2, d = {d:g}, degrees {base:g} x "
        "{composite:g}",
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
# The largest width at which it was looked for, by d.
SGD_WIDTHS: dict[int, int] = {40: 100_000, 100: 50_000}
