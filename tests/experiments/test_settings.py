"""Settings that do not fit together are refused by one line that names the field."""

import pytest

from lsa_jax.errors import InputError
from lsa_jax.sweep.fields import load_settings
from lsa_jax.sweep.variants import set_fields

# Fields with which the changes below are the only fault.
FITTING = {
    "growing": {"layers": 2, "added": 1, "grow_steps": 4, "dense_steps": 4, "lag_steps": 2}
    | {"batch_size": 8, "data.validation_windows": 8, "data.length": 8, "index": 1},
    "resnet/hierarchical": {"d": 8, "epochs": 4},
    "resnet/minimal_norm": {"d": 9, "epochs": 4, "search.check_epoch": 2, "width": 400},
}
DECODER = {"model.kind": "decoder", "downstream.tasks": ("quiz",)}
STACKING = {"question": "stacking", "sweep.block_size": (1,)}
INFLUENCE, RESNET = {"question": "influence"}, {"learner": "resnet"}
PATHS = {"connectivity.sizes": (12,)}

# By experiment: changed fields, and the field that the error names.
REFUSED = {
    "growing": (
        ({"model.heads": 64}, "model.heads"),
        ({"data.validation_windows": 9}, "data.validation_windows"),
        ({"data.shares": (0.5, 0.5)}, "data.shares"),
        ({"data.shares": (0.5,)}, "data.shares"),
        ({"index": 2}, "index"),
        ({"added": 3}, "added"),
        ({"added": 2, "index": 0, "block_size": 3}, "block_size"),
        ({"lag_steps": 5}, "lag_steps"),
        ({"dense_steps": 5}, "dense_steps"),
        ({"optimizer.warmup_steps": 2000}, "optimizer.warmup_steps"),
        ({"downstream.tasks": ("quiz",)}, "downstream.tasks"),
        (DECODER, "downstream.answer_tokens"),
        (STACKING | {"stage_steps": (4,)}, "stage_steps"),
        (STACKING | {"index_strides": (1, 1)}, "index_strides"),
        (STACKING | {"stage_steps": (100, 1)}, "lag_steps"),
        (STACKING | {"added": 3}, "added"),
        (STACKING | {"sweep.block_size": (1, 2)}, "sweep.block_size"),
    ),
    "lazy_rich/dial": (
        ({"measures": ("kernel_distance",)}, "measures"),
        ({"data.image_size": 9}, "data.image_size"),
    ),
    "lazy_rich/learning_rates": (({"data.image_size": 9}, "data.image_size"),),
    "lazy_rich/papers": (({"measures": ("effective_rank",)}, "measures"),),
    "resnet/hierarchical": (
        ({"learner": "gaussian"}, "net"),
        ({"net": "3layer_bottleneck", "learner": "ntk_infinite"}, "net"),
        ({"composite_degree": 5}, "composite_degree"),
        ({"outputs": 5}, "outputs"),
        ({"search.rung_epochs": (2,)}, "search.rung_keep"),
        ({"search.rung_epochs": (4,), "search.rung_keep": (1,)}, "search.kernel_rung_keep"),
        ({"learner": "ntk_exact", "num_train": 9000}, "num_train"),
        ({"question": "epochs", "beta": 0.0}, "beta"),
        ({"sweep.series": (("3resnet",),)}, "sweep.series"),
        ({"ridges": ()}, "ridges"),
    ),
    "resnet/minimal_norm": (
        ({"width": 7}, "width"),
        ({"part": "construction", "small_width": 402}, "width"),
        ({"search.check_epoch": 4}, "search.check_epoch"),
    ),
    "stability": (
        ({"stops": (5, 3)}, "stops"),
        ({"stops": ()}, "stops"),
        ({"report_step": 4}, "report_step"),
        ({"training.momentum": 0.9}, "training.momentum"),
        ({"training.decay_steps": (3,)}, "training.decay_steps"),
        (RESNET | {"model.depth": 10}, "model.depth"),
        (INFLUENCE | {"influence.removed": 900}, "influence.removed"),
        (INFLUENCE | RESNET, "learner"),
        (RESNET | {"perturbation": "removal"}, "perturbation"),
        (RESNET | {"measures": ("kernel_distance",)}, "measures"),
        ({"learner": "linearized_resnet", "measures": ("effective_rank",)}, "measures"),
        ({"measures": ("weight_movement",)}, "measures"),
        *((PATHS | {"connectivity.num_alphas": n}, "connectivity.num_alphas") for n in (4, 6, 75)),
    ),
    "theory/laws": (
        ({"num_train": 2000}, "num_train"),
        ({"law": "grokking", "depth": 3}, "depth"),
        ({"law": "scaling", "model": "cnn"}, "model"),
    ),
    "theory/learning_curves": (
        ({"sweep.pool": (60, 60)}, "sweep.pool"),
        ({"pool": 2000}, "pool"),
        ({"num_others": 400}, "num_others"),
        ({"num_train": 1437}, "num_train"),
        ({"learner": "network", "change": "half_pool"}, "change"),
    ),
    "transformers": (
        ({"sequence_length": 8}, "sequence_length"),
        ({"list_length": 9}, "list_length"),
        ({"lists": "cyclic", "list_step": 4, "list_length": 3}, "list_step"),
        ({"vocabulary_size": 200, "sequence_length": 197}, "sequence_length"),
        ({"vocabulary_size": 20_000, "sequence_length": 10_000}, "sequence_length"),
        ({"measures": ("kernel_distance",)}, "measures"),
        ({"sweep.cases": ((8, 3),)}, "sweep.cases"),
    ),
}

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
# The same with the fields that are accepted, and a change of the first one that is not.
CHANGED = {
    "lsa/activation_sparsity": (
        ({"model.depth": 16}, {"model.depth": 12}),
        (WIDE, {"measures": ("kernel_distance",)}),
    ),
    "lsa/image_examples": ((READ, {"data.photographs": None}),),
    "lsa/kernel_bound": (({}, {"d": 1}), ({}, {"penalties": ()}), ({}, {"pass_fractions": (0.0,)})),
    "lsa/lemmas": (({}, {"noise_scale": 1e300}), ({}, {"target_error": 0.5})),
    "lsa/noise_curves": (
        ({"data.image_size": 16}, {"data.image_size": 17}),
        (DISTRACTORS, {"data.background_size": 18}),
        (DISTRACTORS, {"data.placement": "random_location"}),
        (DISTRACTORS, {"data.task": "all"}),
        ({}, {"data.task": "cifar2"}),
        (READ | {"data.photograph_size": 4}, {"data.photograph_size": 5}),
        ({}, {"data.photograph_size": 4}),
        (READ, {"data.dataset": "mnist"}),
        ({}, {"data.synset": "plants"}),
        ({}, {"data.photographs": "x"}),
        ({}, {"data.folder": "birds"}),
        ({}, {"data.folder": None, "data.dataset": "folder"}),
        ({}, {"data.fit": "pad"}),
        ({"data.fresh_backgrounds": True}, {"data.copies": 2}),
        (READ | {"noise": 1.0}, {"noise": 1.5}),
        ({"data.background": "none"}, {"noise": 0.5}),
        (WIDE | {"model.pool_window": 4}, {"model.pool_window": 5}),
        ({}, {"model.channels": ()}),
        ({"learner": "network", **WIDE}, {"learner": "ntk_infinite"}),
        ({"learner": "ntk_trained", **WIDE}, {"learner": "rfm"}),
        (INFINITE, {"data.fresh_backgrounds": True}),
        (INFINITE, {"ntk_infinite.ridge": ()}),
        (INFINITE, {"ntk_infinite.ridge": (0.1, 0.2), "ntk_infinite.solver": "nystrom"}),
        ({"learner": "rfm"}, {"rfm.solver": "nystrom"}),
        (INFINITE | {"ntk_infinite.solver": "auto"}, {"predict": True}),
        ({"learner": "ntk_trained"}, {"network.decay_epochs": ()}),
        (MUP, {"network.weight_decay": 0.1, "network.optimizer": "adam"}),
        (BACKGROUNDS, {"sweep.noise": (0.0, 1.0)}),
        (COUNTS, {"sweep.num_train": ()}),
        ({}, {"sweep.num_train": (12,)}),
        (UPDATES, {"rfm.every_update": False}),
        (UPDATES, {"sweep.placement": ("random_corner", "fixed_corner")}),
        (COUNTS, {"sweep.size": ((8, 16), (8, 8))}),
        (COUNTS, {"sweep.ntk_width_factor": (1, 4)}),
    ),
    "lsa/signal_dynamics": (
        ({}, {"k": 1}),
        ({}, {"bias_learning_rate_ratio": -1.0}),
        ({}, {"sweep.learning_rate": (0.0,)}),
        (PLAIN | {"num_features": 3}, {"sampler": "shortcut"}),
        (PLAIN | {"separate_filters": True}, {"population": True}),
        (PLAIN | {"stride": 10}, {"stride": 11}),
        (PLAIN | {"num_features": 10}, {"num_features": 11}),
        (PLAIN | {"num_features": 2}, {"stride": 2}),
    ),
    "lsa/signal_scaling": (
        ({}, {"num_features": 2}),
        ({}, {"separate_filters": True}),
        ({}, {"stride": 1}),
    ),
}


CASES = [(name, FITTING.get(name, {}), *one) for name, all_ in REFUSED.items() for one in all_]
CASES += [(n, *one, next(iter(one[1]))) for n, all_ in CHANGED.items() for one in all_]


@pytest.mark.parametrize(("experiment", "accepted", "change", "field"), CASES)
def test_settings_that_do_not_fit_together_are_refused(experiment, accepted, change, field):
    settings = load_settings(experiment)
    config = set_fields(settings.default_config(), accepted)
    settings.validate(config)
    with pytest.raises(InputError, match=rf"^config\.{field} is [^\n]*; accepted: "):
        settings.validate(set_fields(config, change))
