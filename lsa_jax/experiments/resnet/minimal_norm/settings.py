"""Settings: a network of small norm that SGD does not find.

Sources of the defaults: Allen-Zhu and Li (2019), section 8.2; settings that it leaves open: ours.
"""

from typing import Any

from lsa_jax.checks import Kind, integer, number, one_of, tuple_of
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product

# Factors of the target's product, and the inputs on which the small network is built.
DEGREE = 6

_SEED, _SIZE, _RATE, _DECAY = integer(0), integer(1), number(0, above=True), number(0)
_WIDTH = Kind(lambda v: integer(2).accepts(v) and v % 2 == 0, "an even number, 2 or more", int)

FIELDS: dict[str, Field] = {
    **heading(__name__, "A network that SGD does not find"),
    "seed": Field(0, _SEED, "draws examples, initial weights and the order of the examples"),
    "part": Field("search", one_of("construction", "search"), "made by hand, or trained"),
    "d": Field(40, integer(DEGREE), "inputs"),
    "num_train": Field(5000, _SIZE, "N"),
    "num_test": Field(5000, _SIZE, "fresh examples"),
    "width": Field(200, _WIDTH, "m"),
    # The construction: a network of 6 inputs, padded and duplicated.
    "small_width": Field(200, _WIDTH, "m of the network on 6 inputs"),
    "steps": Field(30_000, _SIZE, "of Adam on all 64 inputs"),
    "rate": Field(0.05, _RATE, "of Adam; falls to 0 as a cosine"),
    "penalty": Field(1e-3, _RATE, "lambda of lambda |W|_F^2 / 6, added to the mean squared error"),
    # SGD and its search.
    "batch_size": Field(50, _SIZE, "examples a step"),
    "epochs": Field(800, integer(2), "passes over the training examples"),
    "momentum": Field(0.9, number(0, 0.999), "of SGD"),
    "fall_epoch": Field(400, _SIZE, "epochs after which the rate is divided by 10"),
    "eval_every": Field(100, _SIZE, "epochs between evaluations"),
    "init_std": Field(1.0, _RATE, "standard deviation of the initial weights"),
    "search.learning_rates": Field((10.0,), tuple_of(_RATE, empty=False), "learning rates"),
    "search.weight_decays": Field((2e-5,), tuple_of(_DECAY, empty=False), "weight decays"),
    "search.check_epoch": Field(20, _SIZE, "when diverged candidates are dropped"),
    "search.hopeless": Field(10.0, _RATE, "test error above which a candidate has diverged"),
    **measure_fields(),
    # The axes of the sweep.
    "sweep.penalty": Field(
        (2.5e-3, 2.2e-3, 2e-3, 1e-3, 9e-4, 5e-4, 4.5e-4), tuple_of(_RATE), "lambda by hand"
    ),
    "sweep.hand_width": Field((200, 1000), tuple_of(_WIDTH), "m that it is duplicated to"),
    "sweep.width": Field((200,), tuple_of(_WIDTH), "m of the search"),
    "sweep.seed": Field((0,), tuple_of(_SEED), "seeds of the search"),
}


def sweep(config: Config) -> list[dict[str, Any]]:
    """Returns the swept settings of every point: networks by hand, then searches."""
    axes = config.sweep
    hands = product({"part": ("construction",), "width": axes.hand_width, "penalty": axes.penalty})
    return hands + product({"part": ("search",), "width": axes.width, "seed": axes.seed})


# fmt: off
RULES = (
    Rule("width", lambda c: c.part != "construction" or c.width >= c.small_width,
         "config.small_width = {c.small_width} or more, as neurons are duplicated"),
    Rule("search.check_epoch", lambda c: c.search.check_epoch < c.epochs,
         "below config.epochs = {c.epochs}"),
)
# fmt: on

SETTINGS = Settings(FIELDS, sweep, RULES)

# Sizes for tests.
QUICK = {
    "d": 8,
    "num_train": 40,
    "num_test": 30,
    "small_width": 20,
    "steps": 20,
    "batch_size": 20,
    "epochs": 4,
    "fall_epoch": 2,
    "eval_every": 2,
    "search.learning_rates": (1.0, 1e30),
    "search.weight_decays": (1e-5,),
    "search.check_epoch": 2,
    "sweep.penalty": (1e-3, 1e-2),
    "sweep.hand_width": (20,),
    "sweep.width": (10,),
}
