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
        ({"vocabulary_size": 200, "sequence_length": 197}, "sequence_length is 197"),
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
