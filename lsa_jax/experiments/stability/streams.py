"""Random streams: the numbers that are folded into keys."""


class Stability:
    """Of a seed's key: the start, the order of batches, the samples of a pair."""

    START, ORDER, SAMPLES = range(3)
