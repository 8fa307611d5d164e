"""How many examples, folds and seeds fit a budget of minutes."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lsa_jax import costs, kernels
from lsa_jax.diagnosis import tasks
from lsa_jax.diagnosis.runs import loss_of
from lsa_jax.diagnosis.tasks import Task
from lsa_jax.models.model import ExampleShape, Model
from lsa_jax.reporting import grades

# Passes over the training examples: at least these, and at least as many as these steps take.
_LEAST_EPOCHS, _LEAST_STEPS = 40, 2000
_FEWEST = 120  # examples: a quarter of them, 30, is enough to test on
_TIMED = 256  # examples along a side of the matrix of a finite kernel that is timed
_SIDE = 32  # examples along a side of the tile of an infinite kernel that is timed
_SEEDS = 5  # networks a split, which are timed together as they are trained
_ORDER = 400  # of the matrix whose eigendecomposition is timed
_COMPILED = 8.0  # seconds for the programs of either part
_HALVES = (1.0, 0.7, 0.5)  # of the examples
_SHARES = (0.35, 0.25, 0.17, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01)


class Sizes(NamedTuple):
    """Sizes of a diagnosis; the same sizes, data and key repeat it exactly.

    Attributes:
        seeds: networks a split.
        folds: splits: each part of the examples is tested once. 1 with a test set.
        examples: examples, or training examples where there is a test set.
        epochs: passes over the training examples at most.
        measured_examples: training examples that kernels' measures are taken on.
    """

    seeds: int
    folds: int
    examples: int
    epochs: int
    measured_examples: int

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._asdict().items())


class Pace(NamedTuple):
    """Seconds on this machine of the parts that a diagnosis is made of.

    `step` is of training one of several networks; `entry` of a network's finite kernel, `infinite`
    of the kernel at infinite width (0 without one); `cube` of an eigendecomposition, over the third
    power of its matrix's order.
    """

    step: float = 0.0
    entry: float = 0.0
    infinite: float = 0.0
    cube: float = 0.0


def default_epochs(num_train: int, batch_size: int) -> int:
    """Returns as many epochs as 2,000 steps take, and at least 40."""
    return max(_LEAST_EPOCHS, -(-_LEAST_STEPS // -(-num_train // batch_size)))


def measure_pace(model: Model, kernel: Callable | None, task: Task, batch_size: int) -> Pace:
    """Times a step of training, tiles of the kernels and a solution, without their compilation."""
    inputs, targets = (jnp.asarray(a[: max(batch_size, _TIMED)]) for a in task.train)
    params = model.init(jax.random.key(0), ExampleShape.of(task.train.inputs))
    batch = inputs[:batch_size], targets[:batch_size]
    replicas = jax.tree.map(lambda a: jnp.stack([jnp.asarray(a)] * _SEEDS), (params, *batch))

    def total(params: Any, x: Array, y: Array) -> Array:
        return loss_of(task)(model.apply(params, x), y).mean()

    step = jax.jit(jax.vmap(jax.grad(total)))
    few, network = inputs[:_TIMED], kernels.finite_kernel(model.apply, params)
    of_step = costs.timed(lambda: step(*replicas)) / _SEEDS
    quarter = few[: max(1, len(few) // 4)]  # a call costs some time for any number of examples
    of_tile, of_call = (
        costs.timed(lambda x=x: kernels.gram(network, x, x, progress=False)) for x in (few, quarter)
    )
    of_entry = max(of_tile - of_call, 0.1 * of_tile) / max(1, len(few) ** 2 - len(quarter) ** 2)
    of_infinite, count = 0.0, min(_SIDE, len(few))
    if kernel is not None:
        tile = jax.jit(kernel)
        of_infinite = costs.timed(lambda: tile(few[:count], few[:count]))
    rows = np.random.default_rng(0).standard_normal((_ORDER, _ORDER))
    solution = costs.timed(lambda: kernels.eigendecompose(rows @ rows.T))
    # The evaluation after each epoch takes about half of the training.
    return Pace(1.5 * of_step, of_entry, of_infinite / count**2, solution / _ORDER**3)


def _num_tests(sizes: Sizes, task: Task) -> int:
    """Returns the number of test examples of a split."""
    if task.test is not None:
        return len(task.test.targets)
    return round(sizes.examples / (sizes.folds if sizes.folds > 1 else 4))


def expected_seconds(sizes: Sizes, task: Task, pace: Pace, batch_size: int) -> tuple[float, float]:
    """Returns the expected time of training, and of kernels with their eigenvalues."""
    tests = _num_tests(sizes, task)
    n = sizes.examples - (tests if task.test is None else 0)
    steps = sizes.epochs * -(-n // batch_size)
    entries = n * (n + tests)
    networks = sizes.folds * sizes.seeds
    of_training = networks * steps * pace.step
    of_kernels = networks * 2 * pace.entry * entries + sizes.folds * pace.infinite * entries
    of_kernels += (2 * networks + sizes.folds) * pace.cube * n**3
    return of_training + _COMPILED, of_kernels + _COMPILED


def choose(task: Task, pace: Pace, minutes: float, batch_size: int, given: dict[str, Any]) -> Sizes:
    """Returns the sizes of a diagnosis that is expected to end in time.

    Among seeds, folds and at least half of the examples it is the choice with the narrowest margin,
    and the most examples. Fewer examples are tried in turn. A budget that nothing fits becomes a
    quarter more than the least. `given` are sizes by name; None or absent means to be chosen.
    """
    given = {name: value for name, value in given.items() if value is not None}
    count = len(task.train.targets)
    given |= {"examples": min(given["examples"], count)} if "examples" in given else {}

    def sizes(share: float, crossed: bool, seeds: int) -> Sizes:
        examples = given.get("examples", max(min(_FEWEST, count), round(share * count)))
        folds = given.get("folds", tasks.default_folds(task, examples) if crossed else 1)
        held = 0 if task.test is not None else examples // (folds if folds > 1 else 4)
        epochs = default_epochs(examples - held, batch_size)
        chosen = Sizes(seeds, folds, examples, epochs, min(128, examples - held))
        return chosen._replace(**given)

    def margin(tried: Sizes) -> tuple[float, int]:
        tested = _num_tests(tried, task) * tried.folds
        return grades.planned_margin(tried.seeds, tested), -tried.examples

    def of(*shares: float) -> list[Sizes]:
        return [sizes(*one) for one in itertools.product(shares, (True, False), (_SEEDS, 3))]

    def seconds(tried: Sizes) -> float:
        return sum(expected_seconds(tried, task, pace, batch_size))

    most = max(60 * minutes, 1.25 * min(map(seconds, of(_SHARES[-1]))))
    for shares in (_HALVES, *((share,) for share in _SHARES)):
        if fitting := [one for one in of(*shares) if seconds(one) <= most]:
            break
    return min(fitting, key=margin)
