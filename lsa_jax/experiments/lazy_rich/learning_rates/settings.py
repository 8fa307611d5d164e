"""Settings: the best learning rate of a network on digits, by width and parameterisation."""

import ml_collections

from lsa_jax.checks import integer, number, optional, text, tuple_of
from lsa_jax.experiments.lazy_rich.fields import DATA, NETWORK, PARAMETERIZATION, TRAINING
from lsa_jax.sweep.fields import Field, check, experiment_field, measure_fields
from lsa_jax.sweep.fields import default_config as _default_config
from lsa_jax.sweep.points import product

_RATE = number(0, above=True)

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("The best learning rate by width", text(), "heading of the report"),
    "learning_rate": Field(0.1, _RATE, "rate at the start"),
    "output_scale": Field(
        None,
        optional(number(0, above=True)),
        "alpha: trains alpha (f - f_0), 1 for the change alone; None trains f",
    ),
    **DATA,
    **NETWORK,
    **TRAINING,
    **measure_fields(),
    # The axes of the sweep.
    "sweep.parameterization": Field(
        ("standard", "mup"), tuple_of(PARAMETERIZATION), "parameterisations"
    ),
    "sweep.width_factor": Field((1, 2, 4, 8, 16), tuple_of(integer(1)), "width factors"),
    "sweep.learning_rate": Field(
        tuple(2.0**power for power in range(-10, 2)), tuple_of(_RATE), "rates"
    ),
    "sweep.seed": Field((0, 1, 2), tuple_of(integer(0)), "seeds"),
}


def default_config() -> ml_collections.ConfigDict:
    """Returns the configuration with every field at its default."""
    return _default_config(FIELDS)


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: parameterisation x width x rate x seed."""
    names = ("parameterization", "width_factor", "learning_rate", "seed")
    return product({name: config.sweep[name] for name in names})


def validate(config: ml_collections.ConfigDict) -> None:
    """Raises unless every field is accepted.

    Raises:
        InputError: one line that names the field, the value and what is accepted.
    """
    check(config, FIELDS)
