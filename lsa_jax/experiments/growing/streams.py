"""Random streams: the numbers that are folded into keys."""


class Growing:
    """Of a seed's key: the start, layers that a stage adds, hidden tokens of a batch.

    Layers are drawn from `LAYERS` and the number of layers that a stage ends with.
    """

    INIT, LAYERS, HIDDEN = range(3)
