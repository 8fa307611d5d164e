import math

import pytest
from small_sweeps import maker

from lsa_jax.errors import InputError
from lsa_jax.experiments.transformers.settings import SETTINGS

make = maker(SETTINGS, {})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"sequence_length": 8}, "sequence_length is 8"),
        ({"list_length": 9}, "list_length is 9"),
        ({"lists": "cyclic", "list_step": 4, "list_length": 3}, "list_step is 4"),
        ({"vocabulary_size": 60, "sequence_length": 6}, "sequence_length is 6"),
        ({"vocabulary_size": 20_000, "sequence_length": 10_000}, "sequence_length is 10000"),
        ({"measures": ("kernel_distance",)}, "measures is"),
        ({"sweep__cases": ((8, 3),)}, "sweep.cases"),
    ],
)
def test_settings_that_do_not_fit_are_named(fields, named):
    sizes = ("vocabulary_size", "sequence_length", "list_length")
    case = tuple(fields.get(name, default) for name, default in zip(sizes, (8, 3, 2), strict=True))
    with pytest.raises(InputError, match=f"config.{named}"):
        make(**{"sweep__cases": (case,)} | fields)


@pytest.mark.parametrize(("tokens", "length"), [(200, 3), (200, 197), (200, 2), (200, 198)])
def test_at_most_a_million_sets_are_accepted(tokens, length):
    fields = {"sweep__cases": ((tokens, length, 2),)}
    if math.comb(tokens, length) > 1_000_000:  # C(200, 3) is 1,313,400 and C(200, 2) 19,900
        with pytest.raises(InputError):
            make(**fields)
    else:
        make(**fields)
