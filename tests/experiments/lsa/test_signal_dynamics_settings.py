import importlib.util
from pathlib import Path

import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.signal_dynamics import settings
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "lsa" / "fig3_dynamics.py"


def figure3():
    spec = importlib.util.spec_from_file_location("fig3_dynamics", CONFIG)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_defaults_are_accepted_and_the_papers():
    config = settings.default_config()
    settings.validate(config)
    assert (config.k, config.d, config.batch_size, config.steps) == (1000, 10, 500, 10_000)
    assert (config.learning_rate, config.noise_scale, config.num_test) == (0.1, 1.0, 5000)
    assert config.bias_learning_rate_ratio is None


EXTENDED = {"sampler": "plain", "population": False}

REFUSED = [
    ({"k": 1}, "config.k is 1; accepted: a whole number, 2 or more"),
    ({"d": 0}, "config.d is 0"),
    ({"noise_scale": -1.0}, "config.noise_scale is -1.0; accepted: a number, 0 or more"),
    ({"init_scale": 0.0}, "config.init_scale is 0.0"),
    ({"learning_rate": 0.0}, "config.learning_rate is 0.0; accepted: a number above 0"),
    ({"bias_learning_rate_ratio": -1.0}, "config.bias_learning_rate_ratio is -1.0; accepted: None"),
    ({"batch_size": 0}, "config.batch_size is 0"),
    ({"steps": 0}, "config.steps is 0"),
    ({"eval_every": 0}, "config.eval_every is 0"),
    ({"num_test": 0}, "config.num_test is 0"),
    ({"checkpoint_every": 0}, "config.checkpoint_every is 0"),
    ({"seed": -1}, "config.seed is -1"),
    ({"sampler": "exact"}, "config.sampler is 'exact'; accepted: one of 'shortcut', 'plain'"),
    ({"sweep.seed": (0, -1)}, "config.sweep.seed is "),
    ({"sweep.noise_scale": (-0.5,)}, "config.sweep.noise_scale is "),
    ({"sweep.learning_rate": (0.0,)}, "config.sweep.learning_rate is "),
    (
        {"num_features": 3},
        "config.sampler is 'shortcut' while config.num_features is 3; accepted: 'plain'",
    ),
    (
        {"separate_filters": True, "sampler": "plain"},
        "config.population is True while config.separate_filters is True; accepted: False",
    ),
    (EXTENDED | {"stride": 11}, "config.stride is 11; accepted: at most d = 10"),
    (EXTENDED | {"num_features": 11}, "config.num_features is 11; accepted: at most d = 10"),
    (
        EXTENDED | {"stride": 2, "num_features": 2},
        "config.stride is 2 while config.num_features is 2; accepted: None",
    ),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_a_wrong_value_is_named(fields, message):
    config = set_fields(settings.default_config(), fields)
    with pytest.raises(InputError, match=message):
        settings.validate(config)


def test_the_sweep_is_every_combination_of_the_axes_that_are_not_empty():
    config = settings.default_config()
    assert settings.sweep(config) == [{"seed": seed} for seed in config.sweep.seed]
    set_fields(config, {"sweep.seed": (3, 4), "sweep.noise_scale": (0.5, 1.0)})
    assert settings.sweep(config) == [
        {"noise_scale": scale, "seed": seed} for scale in (0.5, 1.0) for seed in (3, 4)
    ]


@pytest.mark.parametrize("variant", ["full", "small", "quick"])
def test_every_variant_of_the_figure_is_accepted(variant):
    module = figure3()
    config = module.get_config(variant)
    points = make_points(config, settings.sweep(config), settings.validate)
    assert [point.config.seed for point in points] == list(config.sweep.seed)


def test_an_unknown_variant_is_refused_with_those_there_are():
    with pytest.raises(InputError, match="'tiny'; accepted after the colon: full, small, quick"):
        figure3().get_config("tiny")
