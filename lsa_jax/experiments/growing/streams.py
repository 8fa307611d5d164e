"""Random streams of this paper's experiments: what is folded into which key."""


class Growing:
    """Of a seed's key: the start, layers that a stage adds, what is hidden in a batch.

    Layers are drawn from `LAYERS` and the number of layers that a stage ends with.
    """

    INIT, LAYERS, HIDDEN = range(3)
