"""Settings: what filters of a ResNet turn to, block by block.

Sources of the defaults: Shi, Wei and Liang (ICLR 2022), appendix E.4.1. The paper gives no
optimiser, batch or augmentation; those below are ours.
"""

import ml_collections

from lsa_jax.checks import integer, number, one_of, optional, text, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.reporting.measure_names import OF_WEIGHTS
from lsa_jax.sweep.fields import Field, Settings, experiment_field, measure_fields

_SEED, _FILTERS = integer(0), integer(2)

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Filters of a ResNet", text(), "heading of the report"),
    "filters": Field(128, _FILTERS, "m of ResNet(m): filters in the first block"),
    "seed": Field(0, _SEED, "draws the initial network and the order"),
    # The data: two classes.
    "data.dataset": Field("cifar10", one_of("cifar10", "svhn", "mnist", "digits"), "images"),
    "data.classes": Field((0, 1), tuple_of(integer(0)), "the two to be told apart"),
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


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns the swept settings of every point: width x seed."""
    return [
        {"filters": filters, "seed": seed}
        for filters in config.sweep.filters
        for seed in config.sweep.seed
    ]


def _check(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields fit together."""
    epochs = config.epochs
    if not epochs or list(epochs) != sorted(set(epochs)):
        raise InputError(f"config.epochs is {epochs}; accepted: one epoch or more, rising")
    if len(set(config.data.classes)) != 2:
        raise InputError(f"config.data.classes is {config.data.classes}; accepted: two classes")
    if config.gradient_steps % 3:
        raise InputError(
            f"config.gradient_steps is {config.gradient_steps}; accepted: multiples of 3"
        )


SETTINGS = Settings(FIELDS, sweep, check=_check)
default_config, validate = SETTINGS.default_config, SETTINGS.validate
