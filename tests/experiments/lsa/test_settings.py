"""Fields and rules of this paper's experiments: refused values, and the points of sweeps."""

import math

import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.activation_sparsity.settings import SETTINGS as ACTIVATION
from lsa_jax.experiments.lsa.image_examples.settings import SETTINGS as EXAMPLES
from lsa_jax.experiments.lsa.kernel_bound import settings as kernel_bound
from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS as LEMMAS
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS as CURVES
from lsa_jax.experiments.lsa.signal_dynamics.settings import SETTINGS as DYNAMICS
from lsa_jax.experiments.lsa.signal_scaling.settings import SETTINGS as SCALING
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

KERNELS = kernel_bound.SETTINGS
ALL = (ACTIVATION, EXAMPLES, KERNELS, LEMMAS, CURVES, DYNAMICS, SCALING)


def configure(settings, fields):
    return set_fields(settings.default_config(), fields)


@pytest.mark.parametrize("settings", ALL)
def test_the_defaults_and_their_sweep_are_accepted(settings):
    config = settings.default_config()
    assert make_points(config, settings.sweep(config), settings.validate)


PLAIN = {"sampler": "plain", "population": False}
PHOTOGRAPHS = {"data.background": "photographs", "data.dataset": "cifar10"}
READ = PHOTOGRAPHS | {"data.photographs": "x"}
DISTRACTORS = {"data.background": "distractors", "data.dataset": "cifar10"}
DISTRACTORS |= {"data.task": "vehicles", "data.placement": "fixed_corner"}
WIDE = {"model.name": "wide_resnet", "model.norm": "batch"}
INFINITE = {"learner": "ntk_infinite"}
MUP = {"network.parameterization": "mup"}
ONE = {"sweep.noise": (1.0,)}
BACKGROUNDS = ONE | {"figure_axis": "background_size"}
COUNTS = ONE | {"figure_axis": "num_train", "sweep.num_train": (12,)}
UPDATES = ONE | {"figure_axis": "update", "rfm.every_update": True}

# Each with fields that are accepted, and a change of the first one that is not.
REFUSED = [
    (DYNAMICS, {}, {"k": 1}),
    (DYNAMICS, {}, {"bias_learning_rate_ratio": -1.0}),
    (DYNAMICS, {}, {"sweep.learning_rate": (0.0,)}),
    (DYNAMICS, PLAIN | {"num_features": 3}, {"sampler": "shortcut"}),
    (DYNAMICS, PLAIN | {"separate_filters": True}, {"population": True}),
    (DYNAMICS, PLAIN | {"stride": 10}, {"stride": 11}),
    (DYNAMICS, PLAIN | {"num_features": 10}, {"num_features": 11}),
    (DYNAMICS, PLAIN | {"num_features": 2}, {"stride": 2}),
    (LEMMAS, {}, {"noise_scale": 1e300}),
    (LEMMAS, {}, {"target_error": 0.5}),
    (SCALING, {}, {"num_features": 2}),
    (SCALING, {}, {"separate_filters": True}),
    (SCALING, {}, {"stride": 1}),
    (KERNELS, {}, {"d": 1}),
    (KERNELS, {}, {"penalties": ()}),
    (KERNELS, {}, {"pass_fractions": (0.0,)}),
    (CURVES, {"data.image_size": 16}, {"data.image_size": 17}),
    (CURVES, DISTRACTORS, {"data.background_size": 18}),
    (CURVES, DISTRACTORS, {"data.placement": "random_location"}),
    (CURVES, DISTRACTORS, {"data.task": "all"}),
    (CURVES, {}, {"data.task": "cifar2"}),
    (EXAMPLES, READ, {"data.photographs": None}),
    (CURVES, READ | {"data.photograph_size": 4}, {"data.photograph_size": 5}),
    (CURVES, {}, {"data.photograph_size": 4}),
    (CURVES, READ, {"data.dataset": "mnist"}),
    (CURVES, {}, {"data.synset": "plants"}),
    (CURVES, {}, {"data.photographs": "x"}),
    (CURVES, {}, {"data.folder": "birds"}),
    (CURVES, {}, {"data.folder": None, "data.dataset": "folder"}),
    (CURVES, {}, {"data.fit": "pad"}),
    (CURVES, {"data.fresh_backgrounds": True}, {"data.copies": 2}),
    (CURVES, READ | {"noise": 1.0}, {"noise": 1.5}),
    (CURVES, {"data.background": "none"}, {"noise": 0.5}),
    (ACTIVATION, {"model.depth": 16}, {"model.depth": 12}),
    (ACTIVATION, WIDE, {"measures": ("kernel_distance",)}),
    (CURVES, WIDE | {"model.pool_window": 4}, {"model.pool_window": 5}),
    (CURVES, {}, {"model.channels": ()}),
    (CURVES, {"learner": "network", **WIDE}, {"learner": "ntk_infinite"}),
    (CURVES, {"learner": "network", **WIDE}, {"learner": "ntk_trained"}),
    (CURVES, INFINITE, {"data.fresh_backgrounds": True}),
    (CURVES, INFINITE, {"ntk_infinite.ridge": ()}),
    (CURVES, INFINITE, {"ntk_infinite.ridge": (0.1, 0.2), "ntk_infinite.solver": "nystrom"}),
    (CURVES, {"learner": "rfm"}, {"rfm.solver": "nystrom"}),
    (CURVES, INFINITE | {"ntk_infinite.solver": "auto"}, {"predict": True}),
    (CURVES, {"learner": "ntk_trained"}, {"network.decay_epochs": ()}),
    (CURVES, MUP, {"network.weight_decay": 0.1, "network.optimizer": "adam"}),
    (CURVES, BACKGROUNDS, {"sweep.noise": (0.0, 1.0)}),
    (CURVES, COUNTS, {"sweep.num_train": ()}),
    (CURVES, {}, {"sweep.num_train": (12,)}),
    (CURVES, UPDATES, {"rfm.every_update": False}),
    (CURVES, UPDATES, {"sweep.placement": ("random_corner", "fixed_corner")}),
    (CURVES, COUNTS, {"sweep.size": ((8, 16), (8, 8))}),
    (CURVES, COUNTS, {"sweep.ntk_width_factor": (1, 4)}),
]


@pytest.mark.parametrize(("settings", "accepted", "change"), REFUSED)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(settings, accepted, change):
    config = configure(settings, accepted)
    settings.validate(config)
    with pytest.raises(InputError, match=rf"^config.{next(iter(change))} is [^\n]*; accepted: "):
        settings.validate(set_fields(config, change))


@pytest.mark.parametrize("k", [100, 1000, 10_000])
def test_rows_are_as_long_as_makes_both_formulas_of_the_noise_agree(k):
    d = kernel_bound.row_length(configure(KERNELS, {"k": k}))
    assert d == pytest.approx((math.log(k) / math.sqrt(k)) ** -2, abs=0.5)
    assert kernel_bound.row_length(configure(KERNELS, {"k": k, "d": 7})) == 7


def test_the_sweep_leaves_out_kernels_with_too_many_weights():
    fields = {"sweep.k": (1000, 3000), "sweep.m": (2, 50), "sweep.seed": (4,)}
    fields |= {"sweep.network_seed": (5,), "sweep.linear_seed": (), "max_features": 50 * 21}
    points = KERNELS.sweep(configure(KERNELS, fields))
    assert [(p["learner"], p["k"], p.get("m"), p["seed"]) for p in points] == [
        ("network", 1000, None, 5),
        ("kernel", 1000, 2, 4),
        ("kernel", 1000, 50, 4),
        ("network", 3000, None, 5),
        ("kernel", 3000, 2, 4),  # 50 filters of 47 entries are too many
    ]


def test_placements_and_sizes_multiply_the_points_of_a_noise_curve():
    axes = {"sweep.learner": ("network",), "sweep.noise": (0.0, 1.0)}
    one = CURVES.sweep(configure(CURVES, axes))
    assert one == [
        {"learner": "network", "width_factor": 1, "noise": noise, "seed": 0} for noise in (0.0, 1.0)
    ]
    axes |= {"sweep.placement": ("random_corner", "fixed_corner"), "sweep.size": ((8, 16), (8, 8))}
    many = CURVES.sweep(configure(CURVES, axes))
    assert len(many) == 8 and {point["data.background_size"] for point in many} == {16, 8}


def test_distractors_lie_only_in_corners():
    fields = {"data.dataset": "cifar10", "sweep.background": ("distractors", "none")}
    config = configure(EXAMPLES, fields)
    points = make_points(config, EXAMPLES.sweep(config), EXAMPLES.validate)
    placed = {(p.config.data.background, p.config.data.placement) for p in points}
    assert ("distractors", "random_location") not in placed
    assert ("distractors", "random_corner") in placed and ("none", "random_location") in placed
