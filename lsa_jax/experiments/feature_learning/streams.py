"""Random streams of this paper's experiments: numbers that are folded into keys."""


class Learning:
    """Of a seed's key: start and batches of the learner, then the problem and its data.

    `NOISE` is of a split's key.
    """

    INIT, ORDER = 0, 1
    RELEVANT, VECTORS, DICTIONARY, TRAIN, TEST, NOISE = range(10, 16)


class FixedFeatures:
    """Of the key of one set of features; the problem's streams are those of `Learning`."""

    DIRECTIONS, OFFSETS = 20, 21


class FilterClouds:
    """Of a seed's key: the network and its training."""

    RUN = 0


class InputStructure:
    """Of a seed's key."""

    TEACHER, STUDENT, MIXTURE = range(3)


class TruncatedRelu:
    """Of an initialisation's key: weights, biases, readout."""

    W, B, A = range(3)


class Dictionary:
    """Of the key of a draw."""

    PATTERNS, MIXTURE, ALIKE, VECTORS, NOISE, ORDER, CENTRES, ATTEMPTS = range(8)


class WeightClouds:
    """Of a seed's key: the start, the order of batches, the data's centres and splits."""

    INIT, ORDER, CENTRES, TRAIN, TEST = range(5)
