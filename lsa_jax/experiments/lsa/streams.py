"""Random streams of this paper's experiments: numbers that are folded into keys."""


class NoiseCurves:
    """Of a seed's key: the network, the data, examples for ridge and gradients, and centres."""

    RUN, DATA, RIDGE, POINTS, CENTRES = range(5)


class KernelBound:
    """Of a seed's key."""

    FILTERS, TRAIN, VALIDATION, TEST, LINEAR = range(5)


class Sample:
    """Of a sample's key: noise, the signal's row, number and order of positive signs."""

    NOISE, ROW, COUNT, ORDER = range(4)


class SignalGradient:
    """Of a batch's key: active rows, their noise, and noise across the filters' plane."""

    COUNT, ROWS, ACROSS = range(3)


class SignalDynamics:
    """Of a seed's key: the start, minibatches, test examples, examples for measures."""

    INIT, TRAIN, TEST, MEASURED = range(4)
