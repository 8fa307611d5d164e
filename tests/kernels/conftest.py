"""Settings that tests of several kinds of kernels share."""

import numpy as np
import pytest

from lsa_jax.kernels.matrices import sharded
from lsa_jax.kernels.matrices.file import Place, Tile
from lsa_jax.processes import ALONE


@pytest.fixture(scope="session")
def half_of():
    """Returns a function that keeps the tiles of a symmetric matrix on and above its diagonal."""

    def pack(matrix, side=64):
        size = len(matrix)
        tiles = np.zeros(sharded.stored_shape(size, side, ALONE), matrix.dtype)
        for row in range(0, size, side):
            for column in range(row, size, side):
                values = matrix[row : row + side, column : column + side]
                sharded.put(tiles, Tile(Place(row, column), values), size, ALONE)
        return sharded.PackedMatrix(tiles, size)

    return pack
