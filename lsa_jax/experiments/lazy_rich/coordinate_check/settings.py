"""Settings: the change of activations in a few steps, by width and parameterisation."""

import ml_collections

from lsa_jax.checks import integer, number, one_of, text, tuple_of
from lsa_jax.experiments.lazy_rich.fields import DATA, NETWORK, PARAMETERIZATION
from lsa_jax.sweep.fields import Field, Settings, experiment_field, measure_fields, product

OPTIMIZERS = ("sgd", "adam")
_OPTIMIZER = one_of(*OPTIMIZERS)

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Coordinate check", text(), "heading of the report"),
    "optimizer": Field("sgd", _OPTIMIZER, "update rule"),
    **DATA,
    **NETWORK,
    "steps": Field(4, integer(1), "updates before activations are compared with the start"),
    "rates.sgd": Field(0.05, number(0, above=True), "rate at width factor 1"),
    "rates.adam": Field(0.001, number(0, above=True), "likewise"),
    "ntk_factor": Field(
        20.0, number(0, above=True), "what SGD's rate is multiplied by in the NTK parameterisation"
    ),
    **measure_fields(),
    # The axes of the sweep.
    "sweep.optimizer": Field(OPTIMIZERS, tuple_of(_OPTIMIZER), "update rules"),
    "sweep.parameterization": Field(
        ("ntk", "standard", "mup"), tuple_of(PARAMETERIZATION), "parameterisations"
    ),
    "sweep.width_factor": Field((1, 2, 4, 8), tuple_of(integer(1)), "width factors"),
    "sweep.seed": Field(tuple(range(16)), tuple_of(integer(0)), "seeds"),
}


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: update rule x parameterisation x width x seed."""
    names = ("optimizer", "parameterization", "width_factor", "seed")
    return product({name: config.sweep[name] for name in names})


SETTINGS = Settings(FIELDS, sweep)
default_config, validate = SETTINGS.default_config, SETTINGS.validate
