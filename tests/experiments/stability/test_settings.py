import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.stability.settings import SETTINGS
from lsa_jax.sweep.variants import set_fields

PATHS = {"connectivity.sizes": (12,)}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"stops": (5, 3)}, "stops"),
        ({"stops": ()}, "stops"),
        ({"report_step": 4}, "report_step"),
        ({"training.momentum": 0.9}, "training.momentum"),
        ({"training.decay_steps": (3,)}, "training.decay_steps"),
        ({"learner": "resnet", "model.depth": 10}, "model.depth"),
        ({"question": "influence", "influence.removed": 900}, "influence.removed"),
        ({"question": "influence", "learner": "resnet"}, "learner"),
        ({"learner": "resnet", "perturbation": "removal"}, "perturbation"),
        ({"learner": "resnet", "measures": ("kernel_distance",)}, "measures"),
        ({"learner": "linearized_resnet", "measures": ("effective_rank",)}, "measures"),
        ({"measures": ("weight_movement",)}, "measures"),
        *((PATHS | {"connectivity.num_alphas": n}, "connectivity.num_alphas") for n in (4, 6, 75)),
    ],
)
def test_settings_that_do_not_fit_are_named(make, fields, named):
    with pytest.raises(InputError, match=f"^config.{named} is .*; accepted: "):
        SETTINGS.validate(set_fields(make()[0], fields))
