"""Settings: the change of activations in a few steps, by width and parameterisation."""

from lsa_jax.checks import integer, number, one_of, tuple_of
from lsa_jax.experiments.lazy_rich.fields import DATA, NETWORK, PARAMETERIZATION, RULES
from lsa_jax.sweep.fields import Field, Settings, heading, measure_fields, product_of

OPTIMIZERS = ("sgd", "adam")
_OPTIMIZER = one_of(*OPTIMIZERS)

FIELDS: dict[str, Field] = {
    **heading(__name__, "Coordinate check"),
    "optimizer": Field("sgd", _OPTIMIZER, "update rule"),
    **DATA,
    **NETWORK,
    "steps": Field(4, integer(1), "updates before activations are compared with the start"),
    "rates.sgd": Field(0.05, number(0, above=True), "rate of SGD at any width"),
    "rates.adam": Field(0.001, number(0, above=True), "rate of Adam at any width"),
    "ntk_factor": Field(
        20.0, number(0, above=True), "factor of SGD's rate in the NTK parameterisation"
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

SETTINGS = Settings(
    FIELDS, product_of("optimizer", "parameterization", "width_factor", "seed"), RULES
)
