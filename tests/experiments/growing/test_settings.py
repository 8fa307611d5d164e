import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.sweep.variants import set_fields

SMALL = {"layers": 2, "added": 1, "grow_steps": 4, "dense_steps": 4, "lag_steps": 2}
SMALL |= {"batch_size": 8, "data.validation_windows": 8, "data.length": 8, "index": 1}
DECODER = {"model.kind": "decoder", "downstream.tasks": ("quiz",)}
STACKING = {"question": "stacking", "sweep.block_size": (1,)}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
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
    ],
)
def test_settings_that_do_not_fit_are_named(fields, named):
    SETTINGS.validate(set_fields(SETTINGS.default_config(), SMALL))
    with pytest.raises(InputError, match=f"^config.{named} is .*; accepted: "):
        SETTINGS.validate(set_fields(SETTINGS.default_config(), SMALL | fields))
