"""What chapter 4 of Karp's thesis (2024) states, to stand beside ours."""

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
    "gradient": (
        "squared gradient in W while a token is wrong, over the proof's",
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
    "cp_success": ("runs that succeed from cP itself", "all where near enough"),
    "near_success": ("runs that succeed from V_0 near cP", "all where near enough"),
    "random_success": ("runs that succeed from a random V_0", "left open"),
}
