"""Settings: laws of lazy and rich training, by full-batch gradient descent."""

from typing import NamedTuple

from lsa_jax.checks import integer, number, one_of, tuple_of
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, product


class Law(NamedTuple):
    """The task of a law, and its measures along training, see `training.Measuring`.

    Tasks are "digits" by a ReLU network; "quadratic", a function of Gaussian inputs, by two layers
    with a fixed readout; "circle", a function of an angle, by a ReLU network with biases.
    """

    task: str
    measures: tuple[str, ...] = ()


LAWS = {
    "rate": Law("digits"),
    "grokking": Law("quadratic", ("kernel_distance", "linearization_gap")),
    "sharpness": Law("digits", ("sharpness", "kernel_distance")),
    "scaling": Law("circle"),
}
DIGITS = 1437  # training images; 360 others are tested on
_POSITIVE = number(0, above=True)
_COUNT = integer(1)
_PHASES = one_of("aligned", "random")

FIELDS: dict[str, Field] = {
    **heading(__name__, "A law of the rich regime"),
    "law": Field("rate", one_of(*LAWS), "the law: decides data, measures, claims and figure"),
    "model": Field("mlp", one_of("mlp", "cnn"), "digits: the network; cnn takes width as channels"),
    "depth": Field(2, integer(2), "layers of weights, L"),
    "width": Field(32, _COUNT, "units of each hidden layer"),
    "curvature": Field(0.25, _POSITIVE, "quadratic: epsilon in phi(h) = h + epsilon h^2 / 2"),
    "dimension": Field(30, integer(2), "quadratic: of the inputs"),
    "source_exponent": Field(
        0.25, _POSITIVE, "circle: beta; modes from k on have k^(-2 beta) of the target's power"
    ),
    "phases": Field("aligned", _PHASES, "circle: of the modes; aligned gives a sum of cosines"),
    "num_train": Field(64, integer(2), "training examples, all in each step"),
    "num_test": Field(360, _COUNT, "test examples"),
    "output_scale": Field(1.0, _POSITIVE, "alpha: trains alpha (f - f_0)"),
    "learning_rate": Field(1.0, _POSITIVE, "rate on w = alpha (theta - theta_0)"),
    "steps": Field(300, _COUNT, "of gradient descent"),
    "evaluations": Field(1, _COUNT, "after the start; in log steps for grokking, scaling"),
    "measured_examples": Field(64, integer(2), "training examples that kernels are measured on"),
    "seed": Field(0, integer(0), "draws the weights and the examples"),
    "max_replicas": Field(128, _COUNT, "runs in one compiled program"),
    # The axes of the sweep.
    "sweep.depth": Field((2,), tuple_of(integer(2)), "numbers of layers"),
    "sweep.output_scale": Field((1.0,), tuple_of(_POSITIVE), "output scales"),
    "sweep.learning_rate": Field((1.0,), tuple_of(_POSITIVE), "rates"),
    "sweep.with_scale": Field(
        False, one_of(False, True), "below a scale of 1, multiply rates by it"
    ),
    "sweep.source_exponent": Field((), tuple_of(_POSITIVE), "empty takes source_exponent"),
    "sweep.phases": Field((), tuple_of(_PHASES), "empty takes phases"),
    "sweep.seed": Field((0, 1, 2), tuple_of(integer(0)), "seeds"),
}


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the points: depth x output scale x rate (x exponent x phases) x seed."""
    axes, points = config.sweep, []
    targets = {name: axes[name] for name in ("source_exponent", "phases") if axes[name]}
    for depth in axes.depth:
        for scale in axes.output_scale:
            factor = min(1.0, scale) if axes.with_scale else 1.0
            rates = tuple(factor * rate for rate in axes.learning_rate)
            own = {"depth": (depth,), "output_scale": (scale,), "learning_rate": rates}
            points += product({**own, **targets, "seed": axes.seed})
    return points


# fmt: off
RULES = (
    Rule("num_train", lambda c: LAWS[c.law].task != "digits" or c.num_train <= DIGITS,
         f"at most {DIGITS} digits"),
    Rule("num_train", lambda c: LAWS[c.law].task != "circle" or c.num_train >= 4,
         "4 or more for the law {c.law!r}, whose targets have modes below half of them"),
    Rule("depth", lambda c: c.law != "grokking" or c.depth == 2, "2 for the law 'grokking'"),
    Rule("model", lambda c: c.model == "mlp" or LAWS[c.law].task == "digits",
         "'mlp' for the law {c.law!r}"),
)
# fmt: on

SETTINGS = Settings(FIELDS, sweep, RULES)
