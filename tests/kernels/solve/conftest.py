"""What tests of the solvers share."""

import numpy as np
import pytest

from lsa_jax.kernels.matrices import packed
from lsa_jax.kernels.matrices.file import Place, Tile
from lsa_jax.processes import ALONE


@pytest.fixture(scope="session")
def half_of():
    """Returns a function that keeps the tiles of a symmetric matrix on and above its diagonal."""

    def pack(matrix, side=64):
        size = len(matrix)
        tiles = np.zeros(packed.stored_shape(size, side, ALONE), matrix.dtype)
        for row in range(0, size, side):
            for column in range(row, size, side):
                values = matrix[row : row + side, column : column + side]
                packed.put(tiles, Tile(Place(row, column), values), size, ALONE)
        return packed.PackedMatrix(tiles, size)

    return pack
