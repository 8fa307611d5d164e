"""Configuration fields: directions of the filters of a ResNet, block by block.

Sources of the defaults: Shi, Wei and Liang (ICLR 2022), appendix E.4.1. The paper gives no
optimiser, batch or augmentation; those below are ours.
"""

from lsa_jax.checks import integer, number, one_of, optional, tuple_of
from lsa_jax.reporting.courses import OF_WEIGHTS
from lsa_jax.sweep.fields import Field, Rule, Settings, heading, measure_fields, product_of

_SEED, _FILTERS = integer(0), integer(2)

FIELDS: dict[str, Field] = {
    **heading(__name__, "Filters of a ResNet"),
    "filters": Field(128, _FILTERS, "m of ResNet(m): filters in the first block"),
    "seed": Field(0, _SEED, "draws the initial network and the order"),
    # The data: two classes.
    "data.dataset": Field("cifar10", one_of("cifar10", "svhn", "mnist", "digits"), "images"),
    "data.classes": Field((0, 1), tuple_of(integer(0)), "the two classes"),
    "data.num_train": Field(None, optional(integer(2)), "training images; None takes all"),
    "data.num_test": Field(None, optional(integer(2)), "test images; None takes all"),
    # Training.
    "init_scale": Field(1.0, number(0, above=True), "of the convolutions at the start, over He's"),
    "learning_rate": Field(0.1, number(0, above=True), "rate, constant"),
    "momentum": Field(0.9, number(0, 1), "of the heavy ball"),
    "weight_decay": Field(5e-4, number(0), "lambda of lambda / 2 |theta|^2"),
    "batch_size": Field(128, integer(2), "images a step"),
    "epochs": Field((3, 20), tuple_of(integer(1)), "pictures after these; the last ends training"),
    "gradient_steps": Field(30, integer(3), "first steps whose gradients are compared; thirds"),
    "near_share": Field(
        0.1, number(0, 1, above=True), "share of a block's filters that make up either cluster"
    ),
    **measure_fields(OF_WEIGHTS, "batch normalisation couples the examples of a batch"),
    # The axes of the sweep.
    "sweep.filters": Field((128, 256), tuple_of(_FILTERS), "widths"),
    "sweep.seed": Field((0, 1, 2, 3, 4), tuple_of(_SEED), "seeds"),
}

# fmt: off
_RULES = (
    Rule("epochs", lambda c: c.epochs and list(c.epochs) == sorted({*c.epochs}),
         "one epoch or more, rising"),
    Rule("data.classes", lambda c: len({*c.data.classes}) == 2, "two classes"),
    Rule("gradient_steps", lambda c: c.gradient_steps % 3 == 0, "multiples of 3"),
)
# fmt: on

SETTINGS = Settings(FIELDS, product_of("filters", "seed"), _RULES)
