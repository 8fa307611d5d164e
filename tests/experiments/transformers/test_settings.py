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


def test_each_question_sweeps_its_own_axes():
    def sweep(question, **fields):
        cases = {"sweep__cases": ((8, 3, 2), (9, 3, 2)), "sweep__seed": (4, 5)}
        return [point.settings for point in make(question=question, **cases, **fields)[1]]

    fixed = sweep("value_fixed")
    first = {"vocabulary_size": 8, "sequence_length": 3, "list_length": 2, "seed": 4}
    assert len(fixed) == 4 and fixed[0] == first
    near = sweep("value_near", sweep__epsilon=(0.1, 2.0))
    assert [point["epsilon"] for point in near[:4]] == [0.1, 0.1, 2.0, 2.0] and len(near) == 8
    step = sweep("value_step")
    assert [point["gradient"] for point in step] == 2 * ["exact", "sampled", "sampled"]
    random = sweep("value_random", sweep__value_scale=(1.0, 2.0), sweep__randomness=(0.0, 0.5, 1.0))
    assert len(random) == 2 * 6 * 2
