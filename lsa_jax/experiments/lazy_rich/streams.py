"""Random streams of this room's experiments: what is folded into which key."""


class Digits:
    """Of a seed's key: the network and its training, the data."""

    RUN, DATA = range(2)
