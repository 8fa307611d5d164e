"""Stars to be found in noise: a drawn shape, or nothing, as pictures for backgrounds.

Only the shape's pixels are pasted (`Composition.transparent`), so that a network can learn nothing
but the shape.

Source: the star data of Beaglehole et al. (2023), Mechanism of feature learning in convolutional
networks: 32 x 32 x 3, noise of standard deviation 0.3, a star of ones in two of three channels at a
place of a 18 x 18 grid, or none; 25 training examples of either kind.
"""

import numpy as np

from lsa_jax.data._image_files import ImageSet
from lsa_jax.data.dataset import Dataset

# Side of a picture: with its margins, in 32 x 32 pixels it has the places of the source's stars.
SIDE = 15

_SHAPE = ("   #   ", "  ###  ", "#######", " ##### ", "  ###  ", " ##### ", " ## ## ")
_TOP, _LEFT, _CHANNELS = 3, 7, 2
_TRAIN, _TEST = 25, 500  # of either class


def star() -> np.ndarray:
    """Returns the picture of a star: [15, 15, 3], ones in the first two channels, else 0."""
    shape = np.array([[cell == "#" for cell in row] for row in _SHAPE], np.float32)
    picture = np.zeros((SIDE, SIDE, 3), np.float32)
    rows, columns = (slice(start, start + len(shape)) for start in (_TOP, _LEFT))
    picture[rows, columns, :_CHANNELS] = shape[:, :, None]
    return picture


def image_set() -> ImageSet:
    """Returns 25 + 25 training and 500 + 500 test pictures.

    Examples of a class are equal until each is composed with a place and a background.
    """
    pictures = np.stack([np.zeros_like(star()), star()])

    def split(count: int) -> Dataset:
        labels = np.tile(np.arange(2, dtype=np.int32), count)
        return Dataset(pictures[labels], labels)

    return ImageSet(split(_TRAIN), split(_TEST), ("nothing", "star"))
