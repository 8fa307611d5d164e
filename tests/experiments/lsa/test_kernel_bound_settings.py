import math

import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.kernel_bound import settings
from lsa_jax.sweep.variants import set_fields


def configure(**fields):
    named = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(settings.default_config(), named)


@pytest.mark.parametrize("k", [100, 1000, 10_000])
def test_rows_are_as_long_as_makes_both_formulas_of_the_noise_agree(k):
    d = settings.row_length(configure(k=k))
    assert d == pytest.approx((math.log(k) / math.sqrt(k)) ** -2, abs=0.5)
    assert settings.row_length(configure(k=k, d=7)) == 7


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"k": 5}, "config.k is 5; accepted: a whole number, 10 or more"),
        ({"d": 1}, "config.d is 1; accepted: None or a whole number, 2 or more"),
        ({"m": 0}, "config.m is 0"),
        ({"learner": "cnn"}, "config.learner is 'cnn'; accepted: one of 'network', 'kernel'"),
        ({"pass_fractions": (0.0,)}, "config.pass_fractions is "),
        ({"penalties": (-1.0,)}, "config.penalties is "),
        ({"pass_fractions": ()}, "config.pass_fractions is .*; accepted: a tuple of one value or"),
        ({"penalties": ()}, "config.penalties is .*; accepted: a tuple of one value or more"),
        ({"sweep__m": (0,)}, "config.sweep.m is "),
    ],
)
def test_a_wrong_value_is_named(fields, message):
    settings.validate(settings.default_config())
    with pytest.raises(InputError, match=message):
        settings.validate(configure(**fields))


def test_the_sweep_leaves_out_kernels_with_too_many_weights():
    config = configure(
        sweep__k=(1000, 3000), sweep__m=(2, 50), sweep__seed=(4,), max_features=50 * 21
    )
    config.sweep.network_seed, config.sweep.linear_seed = (5,), ()
    found = [(p["learner"], p["k"], p.get("m"), p["seed"]) for p in settings.sweep(config)]
    assert found == [
        ("network", 1000, None, 5),
        ("kernel", 1000, 2, 4),
        ("kernel", 1000, 50, 4),
        ("network", 3000, None, 5),
        ("kernel", 3000, 2, 4),  # 50 filters of 47 entries are too many
    ]
