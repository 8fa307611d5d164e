"""Settings: the best learning rate on digits, by width and parameterisation."""

from lsa_jax.checks import integer, number, optional, tuple_of
from lsa_jax.experiments.lazy_rich.fields import DATA, NETWORK, PARAMETERIZATION, RULES, TRAINING
from lsa_jax.reporting.courses import NAMES
from lsa_jax.sweep.fields import Field, Settings, heading, measure_fields, product_of

_RATE = number(0, above=True)

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "The best learning rate by width"),
    "learning_rate": Field(0.1, _RATE, "rate at the start"),
    "output_scale": Field(None, optional(number(0, above=True)),
        "alpha: trains alpha (f - f_0), 1 for the change alone; None trains f"),
    **DATA,
    **NETWORK,
    **TRAINING,
    **measure_fields(NAMES),
    # The axes of the sweep.
    "sweep.parameterization": Field(("standard", "mup"), tuple_of(PARAMETERIZATION),
        "parameterisations"),
    "sweep.width_factor": Field((1, 2, 4, 8, 16), tuple_of(integer(1)), "width factors"),
    "sweep.learning_rate": Field(tuple(2.0**power for power in range(-10, 2)), tuple_of(_RATE),
        "rates"),
    "sweep.seed": Field((0, 1, 2), tuple_of(integer(0)), "seeds"),
}
# fmt: on

SETTINGS = Settings(
    FIELDS, product_of("parameterization", "width_factor", "learning_rate", "seed"), RULES
)
