"""Photographs of a WordNet synset."""

import numpy as np
import pytest
from PIL import Image

from lsa_jax.data import images
from lsa_jax.errors import InputError


def test_photographs_of_a_synset_are_those_in_its_folders(tmp_path):
    for value, name in enumerate(("n00000100", "n00000200", "n00000500")):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 4, 3), 51 * value, np.uint8)).save(tmp_path / name / "a.png")
    wanted = images.photographs(tmp_path, 4, {"n00000200", "n00000500", "n00000900"})
    np.testing.assert_allclose(wanted[:, 0, 0, 0], [0.2, 0.4], rtol=1e-6)
    with pytest.raises(InputError, match="no pictures of the 1 classes"):
        images.photographs(tmp_path, 4, {"n00000900"})
