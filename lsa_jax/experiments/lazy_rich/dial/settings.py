"""Settings: a network between lazy and rich, by output scale and width."""

from lsa_jax.checks import integer, number, one_of, optional, tuple_of
from lsa_jax.experiments.lazy_rich.fields import DATA, NETWORK, PARAMETERIZATION, RULES, TRAINING
from lsa_jax.reporting.courses import NAMES
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product

# The network; its linearisation at the start, trained likewise; its NTK at the start and after
# training, exactly.
LEARNERS = ("network", "linearized", "ntk_finite", "ntk_trained")
BY_SCALE = ("network", "ntk_trained")
_ALPHA = number(0, above=True)
_RATE = "rate at factor 1 and an output scale of 1 or more; see rate_of in the experiment"

# Measures in the report; a sweep may have more.
MEASURES = (
    "kernel_distance",
    "target_alignment",
    "weight_movement",
    "agop_correlation",
    "effective_rank",
)
_MEASURED = measure_fields(NAMES)
for _name, _default in (("measures", MEASURES), ("measured_examples", 64)):
    _MEASURED[_name] = _MEASURED[_name]._replace(default=_default)

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "From lazy to rich"),
    "learner": Field("network", one_of(*LEARNERS), "the learner"),
    "output_scale": Field(1.0, _ALPHA, "alpha: trains alpha (f - f_0)"),
    "dial": Field("output_scale", one_of("output_scale", "width"), "the curve of a point"),
    **DATA,
    **NETWORK,
    **TRAINING,
    "rates.ntk": Field(8.0, number(0, above=True), _RATE),
    "rates.standard": Field(0.1, number(0, above=True), _RATE),
    "rates.mup": Field(0.1, number(0, above=True), _RATE),
    "ridge": Field(1e-3, optional(number(0)),
        "kernels: ridge over the mean diagonal; None chooses it by leave-one-out errors"),
    **_MEASURED,
    "kernel_memory": Field(None, optional(number(1e6)), "bytes that a tile of a kernel may take"),
    # The axes of the sweep.
    "sweep.output_scale": Field((0.25, 1.0, 4.0, 16.0, 64.0, 256.0), tuple_of(_ALPHA),
        "output scales, at width factor 1"),
    "sweep.of_scale": Field(("standard", "ntk"), tuple_of(PARAMETERIZATION),
        "parameterisations of these curves"),
    "sweep.learner": Field(LEARNERS[:3], tuple_of(one_of(*LEARNERS)), "learners, by output scale"),
    "sweep.width_factor": Field((1, 2, 4, 8), tuple_of(integer(1)),
        "width factors, at an output scale of 1"),
    "sweep.of_width": Field(("ntk", "standard", "mup"), tuple_of(PARAMETERIZATION),
        "parameterisations of these curves"),
    "sweep.seed": Field((0, 1, 2), tuple_of(integer(0)), "seeds"),
}
# fmt: on


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the points: networks by output scale and by width, and their kernels."""
    axes, points = config.sweep, []

    def add(
        dial: str, learner: str, name: str, widths: tuple = (1,), scales: tuple = (1.0,)
    ) -> None:
        own = {"dial": (dial,), "learner": (learner,), "parameterization": (name,)}
        sizes = {"width_factor": widths, "output_scale": scales}
        points.extend(product({**own, **sizes, "seed": axes.seed}))

    for name in axes.of_scale:
        for learner in axes.learner:
            scales = axes.output_scale if learner in BY_SCALE else (1.0,)
            add("output_scale", learner, name, scales=scales)
    for name in axes.of_width:
        add("width", "network", name, widths=axes.width_factor)
    return points


ALL_RULES = (
    *RULES,
    Rule(
        "measures",
        lambda c: set(MEASURES) <= set(c.measures),
        f"{MEASURES!r}, which the report is about, and more",
    ),
)

SETTINGS = Settings(FIELDS, sweep, ALL_RULES)
