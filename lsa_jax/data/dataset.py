"""The one shape in which data travels: inputs beside targets."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Shaped


class Dataset(NamedTuple):
    """Examples along the first axis.

    Attributes:
        inputs: [n, ...]; images are [n, height, width, channels] with pixels in [0, 1].
        targets: [n] signs, or [n, classes] one-hot rows.
    """

    inputs: Shaped[Array | np.ndarray, "n ..."]
    targets: Shaped[Array | np.ndarray, "n ..."]
