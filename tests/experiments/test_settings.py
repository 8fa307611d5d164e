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


@pytest.mark.parametrize(
    ("experiment", "fields", "field"),
    [(name, *one) for name, faults in REFUSED.items() for one in faults],
)
def test_settings_that_do_not_fit_together_are_refused(experiment, fields, field):
    settings = load_settings(experiment)
    config = set_fields(settings.default_config(), FITTING.get(experiment, {}))
    settings.validate(config)
    with pytest.raises(InputError, match=rf"^config\.{field} is .*; accepted: "):
        settings.validate(set_fields(config, fields))
