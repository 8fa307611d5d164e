"""Settings of the experiments on the population dynamics: lemmas and theorem 1."""

import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.lemmas import settings as lemmas
from lsa_jax.experiments.lsa.signal_scaling import settings as signal_scaling
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

REFUSED = [
    (lemmas, {"k": 2}, "config.k is 2; accepted: a whole number, 3 or more"),
    (lemmas, {"d": 1}, "config.d is 1; accepted: a whole number, 2 or more"),
    (lemmas, {"noise_scale": 0.0}, "config.noise_scale is 0.0; accepted: a number above 0"),
    (lemmas, {"noise_scale": 1e300}, r"config.noise_scale is 1e\+300; accepted: .* at most 1000"),
    (signal_scaling, {"noise_scale": 1e300}, "config.noise_scale is .* at most 1000"),
    (lemmas, {"target_error": 0.5}, "config.target_error is 0.5"),
    (lemmas, {"lemma1_constant": 0.0}, "config.lemma1_constant is 0.0"),
    (lemmas, {"lemma3_constant": -1.0}, "config.lemma3_constant is -1.0"),
    (lemmas, {"duration": 0.0}, "config.duration is 0.0"),
    (lemmas, {"sweep.k": (1,)}, "config.sweep.k is "),
    (signal_scaling, {"learner": "adam"}, "config.learner is 'adam'; accepted: one of 'sgd'"),
    (signal_scaling, {"noise_scale": 0.0}, "config.noise_scale is 0.0"),
    (signal_scaling, {"target_error": 0.0}, "config.target_error is 0.0"),
    (signal_scaling, {"num_features": 2}, "config.num_features is 2; accepted: 1, as"),
    (
        signal_scaling,
        {"separate_filters": True},
        "config.separate_filters is True; accepted: False",
    ),
    (signal_scaling, {"stride": 1}, "config.stride is 1; accepted: None"),
    (signal_scaling, {"sweep.population_k": (2,)}, "config.sweep.population_k is "),
]


@pytest.mark.parametrize(("settings", "fields", "message"), REFUSED)
def test_a_wrong_value_is_named(settings, fields, message):
    config = set_fields(settings.default_config(), fields)
    with pytest.raises(InputError, match=message):
        settings.validate(config)


@pytest.mark.parametrize("settings", [lemmas, signal_scaling])
def test_the_defaults_are_accepted(settings):
    config = settings.default_config()
    assert len(make_points(config, settings.sweep(config), settings.validate)) > 1


def test_flows_have_no_seed_and_come_first():
    config = set_fields(
        signal_scaling.default_config(),
        {"sweep.k": (16,), "sweep.population_k": (32,), "sweep.population_noise_scale": (1.0,)},
    )
    assert signal_scaling.sweep(config) == [
        {"learner": "population", "noise_scale": 1.0, "k": 32},
        {"learner": "sgd", "noise_scale": 0.5, "k": 16, "seed": 0},
        {"learner": "sgd", "noise_scale": 0.5, "k": 16, "seed": 1},
    ]
