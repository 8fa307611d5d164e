"""Random streams of this room's experiments: what is folded into which key."""


class Digits:
    """Of a seed's key: the network and its training, the data."""

    RUN, DATA = range(2)


class Papers:
    """Of a seed's key: examples, filters, the network's training, examples for ridge, gradients."""

    TRAIN, TEST, FILTERS = range(3)
    RUN, RIDGE, POINTS = range(10, 13)
