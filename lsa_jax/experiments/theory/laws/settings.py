"""Settings: laws of lazy and rich training, by full-batch gradient descent."""

from lsa_jax.checks import integer, number, one_of, text, tuple_of
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, experiment_field, product

# Measures along training, by law.
LAWS = {
    "rate": (),
    "grokking": ("kernel_distance", "linearization_gap"),
    "sharpness": ("sharpness", "kernel_distance"),
}
DIGITS = 1437  # training images; 360 others are tested on
_POSITIVE = number(0, above=True)
_COUNT = integer(1)

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("A law of the rich regime", text(), "heading of the report"),
    "law": Field("rate", one_of(*LAWS), "the law: decides measures, claims and figure"),
    "task": Field(
        "digits",
        one_of("digits", "quadratic"),
        "digits by a ReLU network, or a quadratic function of Gaussian inputs by two layers",
    ),
    "depth": Field(2, integer(2), "layers of weights, L"),
    "width": Field(32, _COUNT, "units of each hidden layer"),
    "curvature": Field(0.25, _POSITIVE, "quadratic: epsilon in phi(h) = h + epsilon h^2 / 2"),
    "dimension": Field(30, integer(2), "quadratic: of the inputs"),
    "num_train": Field(64, integer(2), "training examples, all in each step"),
    "num_test": Field(360, _COUNT, "test examples"),
    "output_scale": Field(1.0, _POSITIVE, "alpha: trains alpha (f - f_0)"),
    "learning_rate": Field(1.0, _POSITIVE, "rate on w = alpha (theta - theta_0)"),
    "steps": Field(300, _COUNT, "of gradient descent"),
    "evaluations": Field(1, _COUNT, "after the start; evenly in log steps for grokking"),
    "measured_examples": Field(64, integer(2), "training examples that kernels are measured on"),
    "seed": Field(0, integer(0), "draws the weights and the examples"),
    "max_replicas": Field(128, _COUNT, "runs in one compiled program"),
    # The axes of the sweep.
    "sweep.depth": Field((2,), tuple_of(integer(2)), "numbers of layers"),
    "sweep.output_scale": Field((1.0,), tuple_of(_POSITIVE), "output scales"),
    "sweep.learning_rate": Field((1.0,), tuple_of(_POSITIVE), "rates"),
    "sweep.with_scale": Field(
        False, one_of(False, True), "below a scale of 1, multiply rates by it as the dial does"
    ),
    "sweep.seed": Field((0, 1, 2), tuple_of(integer(0)), "seeds"),
}


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the points: depth x output scale x rate x seed."""
    axes, points = config.sweep, []
    for depth in axes.depth:
        for scale in axes.output_scale:
            factor = min(1.0, scale) if axes.with_scale else 1.0
            rates = tuple(factor * rate for rate in axes.learning_rate)
            own = {"depth": (depth,), "output_scale": (scale,), "learning_rate": rates}
            points += product({**own, "seed": axes.seed})
    return points


RULES = (
    Rule(
        "num_train",
        lambda c: c.task != "digits" or c.num_train <= DIGITS,
        f"at most {DIGITS} digits",
    ),
    Rule("depth", lambda c: c.task != "quadratic" or c.depth == 2, "2 for the task 'quadratic'"),
    Rule(
        "task",
        lambda c: (c.task == "quadratic") == (c.law == "grokking"),
        "'quadratic' for the law 'grokking', 'digits' for the others",
    ),
)

SETTINGS = Settings(FIELDS, sweep, RULES)
