"""Random streams: the numbers that are folded into keys."""


class Seed:
    """Of a seed's key. The questions share the lists; each draws the rest by itself."""

    LISTS = 0
    VALUES = 1  # training from values that are more or less random
    INIT, SEQUENCES, MEASURED = 1, 2, 3  # one step on the values
    VALUE_NOISE = 1  # the theorems


class Lists:
    """Of the key of the lists."""

    PERMUTATION, LENGTHS, MEMBERS = range(3)
