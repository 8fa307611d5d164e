"""Settings: those of a network among the noise curves'.

Source of the defaults: Karp et al. (NeurIPS 2021), figure 2; thesis appendix B.3.
"""

import ml_collections

from lsa_jax.checks import one_of, text
from lsa_jax.experiments.lsa.noise_curves import settings
from lsa_jax.sweep.fields import Field, Settings, experiment_field, measure_fields, product

_SHARED = ("data.", "model.", "network.", "noise", "seed", "width_factor", "parallel")

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Active neurons during training", text(), "heading of the report"),
    "learner": Field("network", one_of("network"), "who learns"),
    **{name: field for name, field in settings.FIELDS.items() if name.startswith(_SHARED)},
    **measure_fields(),
    "max_replicas": settings.FIELDS["max_replicas"],
    "sweep.noise": Field((0.0,), settings.FIELDS["sweep.noise"].kind, "noise levels"),
    "sweep.seed": settings.FIELDS["sweep.seed"],
}


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns the swept settings of every point: noise x seed."""
    return product({"noise": config.sweep.noise, "seed": config.sweep.seed})


def _check(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields fit together."""
    settings.check_network(config)


SETTINGS = Settings(FIELDS, sweep, check=_check)
default_config, validate = SETTINGS.default_config, SETTINGS.validate
