"""What others print of recursive feature machines, to stand beside ours."""

from typing import NamedTuple


class Published(NamedTuple):
    """What another code base prints of a recursive feature machine.

    Attributes:
        percent: test accuracy before any update, after one, and so on.
        num_train: training images.
        num_test: test images.
        classes: labels to guess among.
        matrix_seconds: what the kernel matrix of the training images takes there; None if it is not
            worth a comparison.
        source: where.
    """

    percent: tuple[float, ...]
    num_train: int
    num_test: int
    classes: int
    matrix_seconds: float | None
    source: str


_SOURCE = "github.com/aradha/agop_feature_learning, kernel_machine_agop/conv_rfm/"

# Beaglehole, Radhakrishnan, Pandit and Belkin (2023): outputs of the notebooks.
PUBLISHED = {
    "conv_rfm/noisy_mnist": Published(
        (52.0, 54.5, 57.3, 59.4), 4000, 4000, 10, 6.7, _SOURCE + "CRFM_noisy_mnist.ipynb"
    ),
    "conv_rfm/stars": Published((78.0, 94.8), 50, 1025, 2, None, _SOURCE + "CRFM_star.ipynb"),
}
