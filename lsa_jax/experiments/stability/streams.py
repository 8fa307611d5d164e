"""Random streams of this paper's experiments: what is folded into which key."""


class Stability:
    """Of a seed's key: the start, the order of batches, the samples of a pair."""

    START, ORDER, SAMPLES = range(3)
