"""Settings of `experiments.activation_sparsity`: those of a network among the noise curves'.

Source of the defaults: Karp et al. (NeurIPS 2021), figure 2; thesis appendix B.3.
"""

import ml_collections

from lsa_jax.settings import noise_curves
from lsa_jax.settings.fields import Field, check, one_of, text
from lsa_jax.settings.fields import default_config as _default_config
from lsa_jax.settings.points import product

_SHARED = ("data.", "model.", "network.", "noise", "seed", "width_factor", "parallel")

FIELDS: dict[str, Field] = {
    "experiment": Field("activation_sparsity", one_of("activation_sparsity"), "what runs"),
    "title": Field("Active neurons during training", text(), "heading of the report"),
    "learner": Field("network", one_of("network"), "who learns"),
    **{name: field for name, field in noise_curves.FIELDS.items() if name.startswith(_SHARED)},
    "max_replicas": noise_curves.FIELDS["max_replicas"],
    "sweep.noise": Field((0.0,), noise_curves.FIELDS["sweep.noise"].kind, "noise levels"),
    "sweep.seed": noise_curves.FIELDS["sweep.seed"],
}


def default_config() -> ml_collections.ConfigDict:
    """Returns the configuration with every field at its default."""
    return _default_config(FIELDS)


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns the swept settings of every point: noise x seed."""
    return product({"noise": config.sweep.noise, "seed": config.sweep.seed})


def validate(config: ml_collections.ConfigDict) -> None:
    """Raises unless every field is accepted and the fields fit together.

    Raises:
        InputError: one line that names the field, the value and what is accepted.
    """
    check(config, FIELDS)
    noise_curves.check_network(config)
