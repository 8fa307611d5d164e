"""Random streams of this paper's experiments: what is folded into which key."""


class Hierarchical:
    """Of a seed's key: the target, splits, the start, the order of batches, inputs to probe."""

    TARGET, TRAIN, TEST, INIT, ORDER, PROBE = range(6)


class MinimalNorm:
    """Of a seed's key: splits, the start, the order of batches, the solution made by hand."""

    TRAIN, TEST, INIT, ORDER, HAND = range(5)


class Target:
    """Of the key of a target: its two signals."""

    BASE, COMPOSITE = range(2)
