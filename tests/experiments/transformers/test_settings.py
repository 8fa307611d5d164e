import math

import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.transformers import settings
from lsa_jax.sweep.variants import set_fields


def configure(**fields):
    named = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(settings.default_config(), named)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"question": "V"}, "config.question is 'V'; accepted: one of 'value_fixed', 'value_near'"),
        ({"sequence_length": 8}, "config.sequence_length is 8; accepted: below L = 8"),
        ({"list_length": 9}, "config.list_length is 9; accepted: below L = 8"),
        ({"epsilon": 0.0}, "config.epsilon is 0.0; accepted: a number above 0"),
        ({"randomness": 1.5}, "config.randomness is 1.5; accepted: a number, 0 or more and at"),
        ({"sweep__cases": ((8, 0, 2),)}, "config.sweep.cases is "),
        (
            {"lists": "cyclic", "list_step": 4, "list_length": 3},
            "config.list_step is 4; accepted: one with which the 3 members of a list differ",
        ),
        (
            {"vocabulary_size": 60, "sequence_length": 6},
            "config.sequence_length is 6; accepted: lengths with at most 1000000 sets",
        ),
        (
            {"vocabulary_size": 20_000, "sequence_length": 10_000},
            "config.sequence_length is 10000; accepted: lengths with at most 1000000 sets",
        ),
        (
            {"measures": ("kernel_distance",)},
            "config.measures is .*accepted for the question 'value_fixed'",
        ),
    ],
)
def test_a_wrong_value_is_named(fields, message):
    settings.validate(settings.default_config())
    with pytest.raises(InputError, match=message):
        settings.validate(configure(**fields))


@pytest.mark.parametrize("length", [1, 19, 179, 198])
def test_sets_are_counted_exactly(length):
    tokens = 200 if length > 20 else 20  # C(200, 3) is 1,313,400 and C(200, 2) 19,900
    assert settings._has_more_sets(tokens, length) == (math.comb(tokens, length) > 1_000_000)


@pytest.mark.parametrize("question", settings.AXES)
def test_no_seeds_are_no_points(question):
    assert settings.sweep(configure(question=question, sweep__seed=())) == []


def test_figure_4_1_lists_no_sets():
    figure = {"vocabulary_size": 60, "sequence_length": 6, "question": "value_step"}
    settings.validate(configure(**figure))


def test_each_question_sweeps_its_own_axes():
    cases = {"sweep__cases": ((8, 3, 2), (9, 3, 2)), "sweep__seed": (4, 5)}
    fixed = settings.sweep(configure(**cases))
    assert len(fixed) == 4 and fixed[0] == {
        "vocabulary_size": 8,
        "sequence_length": 3,
        "list_length": 2,
        "seed": 4,
    }
    near = settings.sweep(configure(question="value_near", sweep__epsilon=(0.1, 2.0), **cases))
    assert [p["epsilon"] for p in near[:4]] == [0.1, 0.1, 2.0, 2.0] and len(near) == 8
    step = settings.sweep(configure(question="value_step", **cases))
    assert [p["gradient"] for p in step] == 2 * ["exact", "sampled", "sampled"]
    grid = {"sweep__value_scale": (1.0, 2.0), "sweep__randomness": (0.0, 0.5, 1.0)}
    assert len(settings.sweep(configure(question="value_random", **grid))) == 6


def test_a_case_of_two_numbers_is_refused():
    with pytest.raises(InputError, match=r"config.sweep.cases has \(8, 3\); accepted: \(L, n, M\)"):
        settings.sweep(configure(sweep__cases=((8, 3),)))
