"""Numbers of chapter 5 of Karp's thesis (2024) that stand beside ours in tables."""

STRATEGIES = ("oracle", "lag", "lag_0", "stack_last", "stack_random")

# Figures 5.2 and 5.3: steps after growing whose loss the thesis correlates with the final one.
EARLY_STEPS: dict[str, tuple[int, ...]] = {"encoder": (200, 5000), "decoder": ()}

# Table C.2: final validation loss of BERT-Large grown in six stages.
STACKING_LOSS: dict[str, float] = {"adaptive": 1.5301, "last": 1.5432}

# Table C.1: percent right after one example, by strategy, of UL2 grown from 12 to 16 layers by
# LAG@2000.
DOWNSTREAM_ACCURACY: dict[str, tuple[float, ...]] = {
    "tydiqa": (28.18, 25.23, 21.82, 21.59, 21.82),
    "triviaqa": (13.84, 13.44, 12.19, 12.39, 12.19),
    "lambada": (8.32, 7.60, 6.89, 6.90, 6.89),
}
