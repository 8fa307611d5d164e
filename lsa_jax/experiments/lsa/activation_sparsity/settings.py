"""Settings: the noise curves' of data and network.

Source of the defaults: Karp et al. (NeurIPS 2021), figure 2; thesis appendix B.3.
"""

from lsa_jax.checks import one_of
from lsa_jax.experiments.lsa.noise_curves import settings
from lsa_jax.experiments.lsa.noise_curves.families import FAMILIES
from lsa_jax.sweep.fields import Field, Settings, heading, measure_fields, product_of

_SHARED = ("data.", "model.", "network.", "noise", "seed", "width_factor", "parallel")

FIELDS: dict[str, Field] = {
    **heading(__name__, "Active neurons during training"),
    "learner": Field("network", one_of("network"), "who learns"),
    **{name: field for name, field in settings.FIELDS.items() if name.startswith(_SHARED)},
    # No file of one's own, whose neurons may have no ReLU.
    "model.name": settings.FIELDS["model.name"]._replace(kind=one_of(*FAMILIES)),
    **measure_fields(),
    "max_replicas": settings.FIELDS["max_replicas"],
    "sweep.noise": Field((0.0,), settings.FIELDS["sweep.noise"].kind, "noise levels"),
    "sweep.seed": settings.FIELDS["sweep.seed"],
}


SETTINGS = Settings(FIELDS, product_of("noise", "seed"), settings.TRAINING_RULES)
