"""What chapter 5 of Karp's thesis (2024) prints, to stand beside ours."""

from typing import NamedTuple


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

# Karp (thesis, 2024), table C.1: percent right after one example, of UL2 grown from 12 to 16 layers
# by LAG@2000.
DOWNSTREAM_ACCURACY: dict[str, dict[str, float]] = {
    "tydiqa": _by_strategy(28.18, 25.23, 21.82, 21.59, 21.82),
    "triviaqa": _by_strategy(13.84, 13.44, 12.19, 12.39, 12.19),
    "lambada": _by_strategy(8.32, 7.60, 6.89, 6.90, 6.89),
}
