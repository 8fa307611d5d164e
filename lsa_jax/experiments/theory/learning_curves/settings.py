"""Settings: errors against the number of examples, predicted and measured."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lsa_jax.checks import integer, number, one_of, tuple_of
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, product


class Task(NamedTuple):
    """Data and a network: its name in reports, and fields of noise curves."""

    label: str
    fields: Mapping[str, Any]


def _sides(side: int) -> dict[str, int]:
    return {"data.image_size": side, "data.background_size": side}


_BARE = {"data.background": "none", "data.placement": "fixed_corner"}
_RATE = {"network.learning_rate": 0.05}
_MLP = {"model.name": "mlp", "model.widths": (256, 256), **_RATE}
_CNN = {"model.name": "cnn", "model.channels": (16, 32)}
_DIGITS = {"data.dataset": "digits", "data.image_size": 8}

_CIFAR2 = {"data.dataset": "cifar10", "data.task": "cifar2", "network.learning_rate": 0.002}

TASKS = {
    "digits_noise": Task(
        "digits in noise",
        _DIGITS | _BARE | _MLP | {"data.background_size": 8, "data.image_noise": 0.3},
    ),
    "digits": Task("digits", _DIGITS | _BARE | _MLP | {"data.background_size": 8}),
    "mnist": Task("MNIST", {"data.dataset": "mnist"} | _sides(28) | _BARE | _MLP),
    "cifar2": Task("CIFAR-2", _CIFAR2 | _sides(32) | _BARE | _CNN),
    "digits_corner": Task(
        "digits in a corner, in noise",
        _DIGITS | _CNN | _RATE | {"data.placement": "random_corner", "noise": 0.5},
    ),
}
# Learners: of the last four the kernel does not depend on the examples that it is fitted to.
LEARNERS = {
    "network": "network",
    "ntk_trained": "NTK after training on n",
    "ntk_fixed": "NTK after training on others",
    "rfm": "recursive feature machine, of others",
    "ntk_infinite": "infinite NTK",
    "ntk_start": "NTK at the start",
}
FIXED = ("ntk_fixed", "rfm", "ntk_infinite", "ntk_start")
# Changes of a kernel's pool, each of which takes one reason for a wrong prediction away.
CHANGES = {
    "none": "as it is",
    "gaussian_targets": "Gaussian targets",
    "random_eigenvectors": "random eigenvectors",
    "half_pool": "half of the pool",
    "quarter_pool": "a quarter of the pool",
}

_TASK, _LEARNER, _CHANGE = one_of(*TASKS), one_of(*LEARNERS), one_of(*CHANGES)
_COUNT = integer(1)

FIELDS: dict[str, Field] = {
    **heading(__name__, "Learning curves"),
    "task": Field("digits", _TASK, "data and network"),
    "data.dataset": Field(
        "digits", one_of("digits", "mnist", "cifar10"), "source of the task's images"
    ),
    "learner": Field("ntk_infinite", _LEARNER, "the learner"),
    "change": Field("none", _CHANGE, "of the kernel's pool: replaces eigenvectors or targets"),
    "num_train": Field(100, _COUNT, "examples drawn from the pool"),
    "seed": Field(0, integer(0), "draws the network, noise, and examples from the pool"),
    "pool": Field(1437, integer(2), "examples, of which all but the drawn ones are tested on"),
    "num_others": Field(360, _COUNT, "examples outside of the pool, for ntk_fixed and rfm"),
    "draws": Field(8, _COUNT, "draws of num_train examples that a kernel's errors are means of"),
    "ridge": Field(1e-3, number(0), "over the mean diagonal of the pool's kernel"),
    "steps": Field(2000, _COUNT, "of a network's training"),
    "batch_size": Field(32, _COUNT, "examples a step"),
    "rfm.updates": Field(3, _COUNT, "updates of the infinite NTK's features"),
    "rfm.points": Field(50, _COUNT, "examples at which gradients are averaged"),
    # The axes of the sweep.
    "sweep.task": Field(tuple(TASKS)[:4], tuple_of(_TASK), "data and networks"),
    "sweep.learner": Field(tuple(LEARNERS), tuple_of(_LEARNER), "learners"),
    "sweep.pool": Field((1437, 3000, 3000), tuple_of(integer(2)), "pools of digits, MNIST, CIFAR"),
    "sweep.num_train": Field((25, 50, 100, 200, 400), tuple_of(_COUNT), "numbers of examples"),
    "sweep.changed": Field(("digits", "digits_noise"), tuple_of(_TASK), "tasks with changed pools"),
    "sweep.change": Field(tuple(CHANGES)[1:], tuple_of(_CHANGE), "changes, of the infinite NTK"),
    "sweep.seed": Field((0, 1, 2), tuple_of(integer(0)), "seeds"),
}
# Sets of images: those of the pool, and those that others are drawn from.
_SETS = {"digits": (1437, 360), "mnist": (60_000, 10_000), "cifar10": (50_000, 10_000)}


def pool_of(config: Config, task: str) -> int:
    """Returns the size of a task's pool."""
    return config.sweep.pool[list(_SETS).index(TASKS[task].fields["data.dataset"])]


def counts_of(config: Config, task: str, change: str) -> tuple[int, ...]:
    """Returns the numbers of examples that leave some of a pool to test on."""
    size = pool_of(config, task) // {"half_pool": 2, "quarter_pool": 4}.get(change, 1)
    return tuple(n for n in config.sweep.num_train if n < size)


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the points: task x learner or change of a pool x number of examples x seed."""
    axes, points = config.sweep, []
    for task in axes.task:
        pairs = [(learner, "none") for learner in axes.learner]
        if task in axes.changed:
            pairs += [("ntk_infinite", change) for change in axes.change]
        for learner, change in pairs:
            own = {"task": task, "learner": learner, "change": change}
            own["pool"] = pool_of(config, task)
            own["data.dataset"] = TASKS[task].fields["data.dataset"]
            of_point = {name: (value,) for name, value in own.items()}
            counts = counts_of(config, task, change)
            points += product({**of_point, "num_train": counts, "seed": axes.seed})
    return points


# fmt: off
RULES = (
    Rule("sweep.pool", lambda c: len(c.sweep.pool) == len(_SETS),
         f"a size for each of {', '.join(_SETS)}"),
    *(
        Rule(
            name,
            lambda c, name=name, place=place: c[name] <= _SETS[c.data.dataset][place],
            f"at most the images of {', '.join(f'{d} ({n[place]})' for d, n in _SETS.items())}",
        )
        for place, name in enumerate(("pool", "num_others"))
    ),
    Rule("num_train", lambda c: c.num_train < c.pool,
         "below config.pool, which is {c.pool}, as the others are tested on"),
    Rule("change", lambda c: c.change == "none" or c.learner in FIXED,
         f"'none', or a learner of {FIXED!r}"),
)
# fmt: on

SETTINGS = Settings(FIELDS, sweep, RULES)
