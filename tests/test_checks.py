"""A value that is not accepted is named in one line, whatever it is."""

import numpy as np
import pytest

from lsa_jax.checks import integer, require
from lsa_jax.errors import InputError


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        ("two\nlines", r"'two\nlines'"),
        (np.zeros((2, 40, 3)), "an array of shape (2, 40, 3)"),
        (np.zeros(()), "array(0.)"),
        ([np.zeros((3, 3))], "[array([[0., 0., 0.], [0., 0., 0.], [0., 0., 0.]])]"),
    ],
)
def test_what_is_not_accepted_is_told_in_one_line(value, shown):
    with pytest.raises(InputError) as refused:
        require("count", value, integer(1))
    assert str(refused.value) == f"count is {shown}; accepted: {integer(1).accepted}"
