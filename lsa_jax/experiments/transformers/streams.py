"""Random streams of this paper's experiments: what is folded into which key."""


class Seed:
    """Of a seed's key: the lists, which all questions share, and what each one draws beside."""

    LISTS = 0
    VALUES = 1  # training from values that are more or less random
    INIT, SEQUENCES, MEASURED = 1, 2, 3  # one step on the values
    VALUE_NOISE = 1  # the theorems


class Lists:
    """Of the key of the lists."""

    PERMUTATION, LENGTHS, MEMBERS = range(3)
